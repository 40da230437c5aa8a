// Kernels that take a struct: launched by the names of its fields, keyed by what is there.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "error_text.h"
#include "ir/print.h"
#include "runtime/kernel.h"
#include "tile.h"

namespace tile {
namespace {

ArrayArgument array(std::vector<float>& values) {
  ArrayArgument argument;
  argument.data = values.data();
  argument.rank = 1;
  argument.sizes[0] = static_cast<int64_t>(values.size());
  argument.strides[0] = 1;
  return argument;
}

enum class Sign { plus, minus };

// y = (x or more * x) * factor + shift.
template <class Array, class Tile>
struct Change {
  std::optional<Array> more;
  std::optional<Tile> factor;
};
template <class Array, class Tile>
struct Parameters {
  Array x;
  Array y;
  Change<Array, Tile> change;
  Tile shift;
  Sign sign = Sign::plus;
  int size = 4;
};
void change_kernel(const Parameters<Array, Tile>& of) {
  Tile i = bid(0), value = of.x.tiled_view({of.size}).load({i});
  Change change = of.change;
  if (!change.factor) change.factor = full({}, 1.0, f32);  // its own: the next launch sees none
  if (change.more) value *= change.more->tiled_view({of.size}).load({i});
  *change.factor += 0.0;
  value = value * *change.factor + of.shift;
  of.y.tiled_view({of.size}).store({i}, of.sign == Sign::minus ? -value : value);
}
Kernel change("change", change_kernel);

// The example of docs/writing_an_operator.md.
template <class Array, class Tile>
struct Scaling {
  Array x, out;
  std::optional<Array> bias;
  Tile factor;
  int columns = 1024;  // of a tile
};
void scale_kernel(const Scaling<Array, Tile>& of) {
  View in = of.x.tiled_view({of.columns}), out = of.out.tiled_view({of.columns});
  Tile value = in.load({bid(0)}) * of.factor;
  if (of.bias) value += of.bias->tiled_view({of.columns}).load({bid(0)});
  out.store({bid(0)}, value);
}
Kernel scale("scale", scale_kernel);

class StructParameters : public testing::Test {
 protected:
  std::vector<float> x{1, 2, 3, 4}, y{0, 0, 0, 0}, more{2, 2, 3, 3};
};

TEST_F(StructParameters, AreNamedAtALaunch) {
  change.launch({1}, {.x = array(x), .y = array(y), .shift = 1.0f});
  EXPECT_EQ(y, (std::vector<float>{2, 3, 4, 5}));
  change.launch({2}, {.x = array(x), .y = array(y), .shift = 1.0f, .sign = Sign::minus, .size = 2});
  EXPECT_EQ(y, (std::vector<float>{-2, -3, -4, -5}));
}

TEST_F(StructParameters, MayBeLeftOutWhereTheyHaveADefault) {
  const int blocks = 1;
  const ArrayArgument x = array(this->x), out = array(y);
  scale.launch({blocks}, {.x = x, .out = out, .factor = 2.0f});
  EXPECT_EQ(y, (std::vector<float>{2, 4, 6, 8}));
}

TEST_F(StructParameters, HoldStructs) {
  change.launch({1}, {.x = array(x), .y = array(y), .change = {.more = array(more)}, .shift = 0.0f});
  EXPECT_EQ(y, (std::vector<float>{2, 4, 9, 12}));
  change.launch({1},
                {.x = array(x), .y = array(y), .change = {array(more), 10.0f}, .shift = 0.5f, .size = 4});
  EXPECT_EQ(y, (std::vector<float>{20.5f, 40.5f, 90.5f, 120.5f}));
}

TEST_F(StructParameters, AreCompiledForWhatIsThere) {
  Kernel own("change_of_key", change_kernel);
  const auto run = [&](std::optional<float> factor, float shift, int size = 4) {
    own.launch({4 / size},
               {.x = array(x), .y = array(y), .change = {.factor = factor}, .shift = shift, .size = size});
    return own.compiled_count();
  };
  EXPECT_EQ(run(std::nullopt, 1), 1u);
  EXPECT_EQ(run(std::nullopt, 2), 1u);
  EXPECT_EQ(y, (std::vector<float>{3, 4, 5, 6}));
  EXPECT_EQ(run(2.0f, 1), 2u);
  EXPECT_EQ(y, (std::vector<float>{3, 5, 7, 9}));
  EXPECT_EQ(run(3.0f, 1), 2u);
  EXPECT_EQ(run(std::nullopt, 1), 2u);  // what the kernel did to its own struct is forgotten
  EXPECT_EQ(y, (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(run(3.0f, 1, 2), 3u);
}

// One struct is made of another with the same fields, whatever it holds them as.
TEST_F(StructParameters, AreMadeOfOtherStructs) {
  const Change<ArrayArgument, float> options{.more = array(more), .factor = 2};
  const Parameters<ArrayArgument, float> all{array(x), array(y), options, 1};
  change.launch({1}, all);
  EXPECT_EQ(y, (std::vector<float>{5, 9, 19, 25}));
  change.launch({1}, {.x = array(x), .y = array(y), .change = as_launched(options), .shift = 0.0f});
  EXPECT_EQ(y, (std::vector<float>{4, 8, 18, 24}));
}

// The traced function is that of the same parameters one by one.
void change_one_by_one(Array x, Array y, std::optional<Array> more, std::optional<Tile> factor, Tile shift,
                       Sign sign, int size) {
  change_kernel({x, y, {more, factor}, shift, sign, size});
}
TEST_F(StructParameters, TraceAsTheirFields) {
  Kernel positional("change", change_one_by_one);
  const auto text = [](const Function& traced) { return print(traced, false); };
  const Parameters<ArrayArgument, float> all{array(x), array(y), {array(more), {}}, 1, Sign::minus, 2};
  EXPECT_EQ(text(change.trace(all)), text(positional.trace(all.x, all.y, all.change.more, std::nullopt,
                                                           all.shift, all.sign, all.size)));
}

// A struct may come with further parameters, and may be missing.
template <class Tile>
struct Range {
  Tile low, high;
};
void clip_kernel(Array x, Array y, std::optional<Range<Tile>> range, int size) {
  Tile value = x.tiled_view({size}).load({bid(0)});
  if (range) value = min(max(value, range->low), range->high);
  y.tiled_view({size}).store({bid(0)}, value);
}
Kernel clip("clip", clip_kernel);

TEST_F(StructParameters, MayBeMissing) {
  clip.launch({1}, array(x), array(y), std::nullopt, 4);
  EXPECT_EQ(y, x);
  clip.launch({1}, array(x), array(y), std::optional(Range<float>{2, 3}), 4);
  EXPECT_EQ(y, (std::vector<float>{2, 2, 3, 3}));
}

// A list as a field: its length is known while tracing.
template <class Array, class Tile>
struct Listed {
  std::vector<Array> arrays;
  std::vector<Tile> factors;
  Array out;
};
void add_listed_kernel(const Listed<Array, Tile>& of) {
  Tile sum = zeros({2}, f32);
  for (size_t k = 0; k < of.arrays.size(); ++k) {
    Tile value = of.arrays[k].tiled_view({2}).load({bid(0)});
    sum += k < of.factors.size() ? value * of.factors[k] : value;
  }
  of.out.tiled_view({2}).store({bid(0)}, sum);
}
Kernel add_listed("add_listed", add_listed_kernel);

TEST_F(StructParameters, HoldLists) {
  Kernel own("add_listed_of_key", add_listed_kernel);
  const auto run = [&](std::vector<detail::LaunchedArray> arrays, std::vector<detail::LaunchedTile> factors) {
    own.launch({2}, {.arrays = std::move(arrays), .factors = std::move(factors), .out = array(y)});
    return own.compiled_count();
  };
  EXPECT_EQ(run({}, {}), 1u);
  EXPECT_EQ(y, (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(run({array(x), array(more)}, {}), 2u);
  EXPECT_EQ(y, (std::vector<float>{3, 4, 6, 7}));
  EXPECT_EQ(run({array(x), array(more)}, {10.0f}), 3u);
  EXPECT_EQ(y, (std::vector<float>{12, 22, 33, 43}));
  EXPECT_EQ(run({array(more), array(x)}, {2.0f}), 3u);
  EXPECT_EQ(y, (std::vector<float>{5, 6, 9, 10}));
  EXPECT_EQ(run(std::vector<detail::LaunchedArray>(16, array(x)), {}), 4u);
  EXPECT_EQ(y, (std::vector<float>{16, 32, 48, 64}));
  const Listed<ArrayArgument, float> all{{array(x)}, {3}, array(y)};
  add_listed.launch({2}, all);
  EXPECT_EQ(y, (std::vector<float>{3, 6, 9, 12}));
}

TEST_F(StructParameters, HoldListsOfSixteenAtMost) {
  const std::vector<ArrayArgument> arrays(17, array(x));
  EXPECT_EQ(error_of([&] {
              add_listed.launch({2}, Listed<ArrayArgument, float>{arrays, {}, array(y)});
            }),
            "a list of 17 parameters is too long for a kernel; the most is 16");
}

struct Many {
  int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, A, B, C, D, E, F;
};
static_assert(detail::field_count<Many>() == 32);
static_assert(detail::field_count<Parameters<Array, Tile>>() == 6);
struct None {};
static_assert(detail::field_count<None>() == 0);

}  // namespace
}  // namespace tile
