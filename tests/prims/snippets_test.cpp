// Tests that the kernels of docs/language give their stated results, and that every row of prims/elementwise
// has a kernel that runs.
#include "prims/snippets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "runtime/kernel.h"

namespace tile {
namespace {

constexpr int rows = 8, columns = 16;

template <class T>
ArrayArgument array(std::vector<T>& values, DType dtype, std::vector<int64_t> sizes) {
  ArrayArgument argument;
  argument.data = values.data();
  argument.dtype = dtype;
  argument.rank = static_cast<int>(sizes.size());
  for (size_t i = sizes.size(), step = 1; i-- > 0; step *= static_cast<size_t>(sizes[i])) {
    argument.sizes[i] = sizes[i];
    argument.strides[i] = static_cast<int64_t>(step);
  }
  return argument;
}

using Expected = std::function<double(int, int)>;
double at(int r, int c) { return r * columns + c; }
double row_sum(int r) { return 256.0 * r + 120; }

void expect(const char* name, void (*function)(Array, Array), const Expected& expected,
            bool of_bits = false) {
  std::vector<float> x(rows * columns), out(rows * columns);
  std::vector<int32_t> bits(columns);
  std::iota(x.begin(), x.end(), 0.0f);
  Kernel kernel(name, function);
  kernel.launch({1}, of_bits ? array(bits, i32, {columns}) : array(x, f32, {rows, columns}),
                array(out, f32, {rows, columns}));
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      EXPECT_EQ(out[static_cast<size_t>(r * columns + c)], static_cast<float>(expected(r, c)))
          << name << " at " << r << ", " << c;
}
#define EXPECT_SNIPPET(NAME, ...)                            \
  expect(#NAME, snippets::NAME, [](int r, int c) -> double { \
    (void)r, (void)c;                                        \
    return __VA_ARGS__;                                      \
  })

TEST(Snippets, Derivatives) { EXPECT_SNIPPET(below_top, c - 15); }

TEST(Snippets, Memory) {
  EXPECT_SNIPPET(twice, 2 * at(r, c));
  EXPECT_SNIPPET(sizes, 8 + 16);
  EXPECT_SNIPPET(parts, at(2, c) + (c < 4 ? at(r, c + 4) : 0) + at(r, c));
  EXPECT_SNIPPET(accumulated, at(r, c) + 1);
  EXPECT_SNIPPET(shifted, c < 8 ? 0 : c < 15 ? at(r, c + 1) : -1);
  EXPECT_SNIPPET(reversed, at(7 - r, c));
  EXPECT_SNIPPET(flat, at(r, c) < 64 ? at(r, c) : -1);
}
TEST(Snippets, Atomics) {
  EXPECT_SNIPPET(counters, r == 0 ? 4 : r == 1 ? 3 + 5 + 9 + 7 + 1 + 4 : 0);
  expect(
      "flags", snippets::flags, [](int r, int c) { return r == 0 && c < 8 ? c == 1 ? 6 : 2 : 0; }, true);
}
TEST(Snippets, Shapes) {
  EXPECT_SNIPPET(made, 1 + 2 * c + 0.5);
  EXPECT_SNIPPET(interleaved, at(r, c % 2 * 8 + c / 2));
  EXPECT_SNIPPET(swapped, r + c == 0 ? -1 : at(r, (c + 8) % 16));
  EXPECT_SNIPPET(bytes, at(r, c));
}
TEST(Snippets, Values) {
  EXPECT_SNIPPET(clipped, at(r, c) > 10 ? at(r, c) : 0);
  EXPECT_SNIPPET(magnitudes, at(r, c) - 64 + std::abs(at(r, c) - 64));
  EXPECT_SNIPPET(between, 1);
  EXPECT_SNIPPET(flushed, at(r, c));
  EXPECT_SNIPPET(drawn, 1);
  EXPECT_SNIPPET(products, c < 8 ? 256.0 * r * c * 16 + 16 * (r + c) * 120 + 1240 : 0);
  EXPECT_SNIPPET(scaled, c < 8 ? 96 : 0);
}
TEST(Snippets, Reductions) {
  EXPECT_SNIPPET(sums, row_sum(r) + 127 * 64 + 65536);
  EXPECT_SNIPPET(extremes, 15 + 15);
  EXPECT_SNIPPET(some, (at(r, 15) > 20) + (at(r, 0) > 20));
  EXPECT_SNIPPET(combined, at(r, 15));
}
TEST(Snippets, Control) {
  EXPECT_SNIPPET(looped, row_sum(r));
  EXPECT_SNIPPET(chosen, 1);
  EXPECT_SNIPPET(counted, 9);
}
TEST(Snippets, Debugging) {
  testing::internal::CaptureStdout();
  EXPECT_SNIPPET(watched, std::sqrt(static_cast<float>(at(r, c))));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "block 0: the sum is 8128.0\n");
}

// The kernel of each row, as on its page, for every dtype.
namespace rows_of_pages {
#define UNARY(N, ...)                      \
  void N##_kernel(Array x, Array out) {    \
    Tile i = bid(0);                       \
    Tile a = x.tiled_view({64}).load({i}); \
    out.tiled_view({64}).store({i}, N(a)); \
  }
#define UNARY_PREDICATE(N, ...) UNARY(N)
#define BINARY(N, ...)                                                       \
  void N##_kernel(Array x, Array y, Array out) {                             \
    Tile i = bid(0);                                                         \
    Tile a = x.tiled_view({64}).load({i}), b = y.tiled_view({64}).load({i}); \
    out.tiled_view({64}).store({i}, N(a, b));                                \
  }
#define PREDICATE(N, ...) BINARY(N)
#define TERNARY(N, ...)                                                      \
  void N##_kernel(Array x, Array y, Array z, Array out) {                    \
    Tile i = bid(0);                                                         \
    Tile a = x.tiled_view({64}).load({i}), b = y.tiled_view({64}).load({i}), \
         c = z.tiled_view({64}).load({i});                                   \
    out.tiled_view({64}).store({i}, N(a, b, c));                             \
  }
#include "prims/elementwise/all.def"
}  // namespace rows_of_pages

template <class... A>
void run(const char* name, DTypeSet dtypes, bool predicate, void (*function)(A...)) {
  Kernel kernel(name, function);
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!dtypes.has(dtype)) continue;
    std::vector<uint64_t> ones(100, 1), out(100, 7), untouched = out;
    const auto given = [&](auto) { return array(ones, dtype, {100}); };
    [&]<size_t... n>(std::index_sequence<n...>) {
      kernel.launch({2}, given(n)..., array(out, predicate ? DType::boolean : dtype, {100}));
    }
    (std::make_index_sequence<sizeof...(A) - 1>());
    EXPECT_NE(out, untouched) << name << " of " << dtype;
  }
}
TEST(Snippets, EveryElementwiseRow) {
#define RUN(N, D, PREDICATE) run(#N, dtypes::D, PREDICATE, rows_of_pages::N##_kernel);
#define UNARY(N, D, ...) RUN(N, D, false)
#define UNARY_PREDICATE(N, D, ...) RUN(N, D, true)
#define BINARY(N, D, ...) RUN(N, D, false)
#define PREDICATE(N, D, ...) RUN(N, D, true)
#define TERNARY(N, D, ...) RUN(N, D, false)
#include "prims/elementwise/all.def"
#undef RUN
}

}  // namespace
}  // namespace tile
