// Tests that every compiler gives equal IR for kernels whose arguments have side effects on the trace, which
// g++ and clang evaluate in different orders. The hashes are those of the canonical text.
#include <gtest/gtest.h>

#include "dsl/tracer.h"
#include "ir/print.h"
#include "passes/passes.h"
#include "tile.h"

namespace tile {
namespace {

struct Arguments {
  Array x, y, z, out;
  Tile n;
};

// Traces a function of arrays of rank 2 and one scalar.
Function trace(void (*body)(const Arguments&)) {
  Tracer tracer("kernel");
  Function& function = tracer.function();
  auto array = [&] { return Array(function.add_argument(function.body(), Type::array(f32, 2), {})); };
  Array x = array(), y = array(), z = array(), out = array();
  body({x, y, z, out, Tile(function.add_argument(function.body(), Type::tile(i32), {}))});
  return tracer.finish();
}
std::string hash_after(void (*body)(const Arguments&), bool all) {
  Function function = trace(body);
  if (all)
    run_passes(function);
  else
    canonicalise(function);
  return hash(function).hex();
}

View cut(const Array& array) { return array.tiled_view({4, 8}); }
Tile at(const Array& array, Tile i, Tile j) { return cut(array).load({i, j}); }

// Nested operands: loads, literals and products.
void nested(const Arguments& a) {
  Tile i = bid(0), j = bid(1);
  Tile r = where(at(a.x, i + 1, j * 2) < at(a.y, j, i),
                 max(exp(at(a.z, i, j)) * 2.0, at(a.x, i, j) + at(a.y, i, j)),
                 fma(at(a.x, j, i), at(a.y, j + 1, i) - 1.0, at(a.z, i * 2, j * 3)));
  cut(a.out).store({i + j, cdiv(j, i + 2)}, r * (1.0 - r) / (at(a.z, j, i) + 2.0));
}

// Tiles by value: the compiler chooses the order in which parameters are created.
Tile swirl(Tile p, Tile q, Tile n) {
  for (Tile k : range(n)) {
    Tile old = p;
    p = q * k.astype(f32);
    q = old + 1.0;
  }
  return p - q;
}
void by_value(const Arguments& a) {
  Tile i = bid(0), j = bid(1);
  cut(a.out).store({i, j}, swirl(at(a.x, i, j), exp(at(a.y, i, j)), min(a.n, cdiv(a.x.dim(0), i + 1))));
}

void loops(const Arguments& a) {
  Tile sum = zeros({4, 8}, f32), most = full({4, 8}, -inf, f32);
  for (Tile i : range(min(a.n * 2, bid(0) + 3), max(a.x.dim(0), a.y.dim(1) - 1)))
    for (Tile j : range(bid(1) % 3, i + a.n, 2)) {
      sum += at(a.x, i, j) * at(a.y, j, i);
      most = max(most, sum - at(a.z, i + j, j - i));
    }
  cut(a.out).store({bid(0), bid(1)}, sum + most);
}

void branches(const Arguments& a) {
  Tile i = bid(0), j = bid(1), v = at(a.x, i, j), w = at(a.y, i, j);
  when(
      a.n < i + j,
      [&] {
        v = min(v, w) + at(a.z, i, j);
        w = swirl(w, v, i + 1);
      },
      [&] { w = fma(v, w, at(a.z, j, i)); });
  when(a.n > 3, [&] { cut(a.out).store({i - 1, j + 1}, v * w); });
  cut(a.out).store({i, j}, v - w);
}

void views(const Arguments& a) {
  Tile i = bid(0), j = bid(1);
  auto row = [&](const Array& array, Tile at, Tile low) {
    return array[{at}].slice(0, low, low + a.n).tiled_view({8}).load({j});
  };
  Tile r =
      row(a.x, i * 2, j + 1) * row(a.y.permute({1, 0}), cdiv(i, 2), j - 1) + row(a.z, mod(i, a.n), min(i, j));
  Tile whole = mma(at(a.x, i, j).t(), at(a.y, j, i), full({8, 8}, 0.5, f32));
  a.out[{i}].tiled_view({8}).store(
      {j}, r + whole.sum(0) * r.reshape({2, 4}).max(0, true).broadcast_to({2, 4}).reshape({8}));
  a.out.tiled_view({8, 8}).store({j, i}, gather(a.x, {arange(8).expand_dims(1) + i, arange(8) * j}) - whole);
}

struct Row {
  const char* name;
  void (*body)(const Arguments&);
  const char *canonical, *optimised;
};
const Row rows[] = {
    {"nested", nested, "c134473e467836f6cbfc0d5ac27ae5e1", "99497803485ed2dd301433a2fefa9640"},
    {"by_value", by_value, "07df5ab7a7882ea7459bd2de48ec320e", "93c6c97e41c483ff024a44c29abc1c0c"},
    {"loops", loops, "b2a09a180f9f479df8d01cb440f85e10", "3908ea19c617098cd03f122456cadaa4"},
    {"branches", branches, "6c186307ae4fadb91f452519fe4064fa", "6c065bc25956c4ce73bbc2931cc6acdb"},
    {"views", views, "379968759044132572a227eeefca2c4d", "df7abd837e1a25b38ec5775b2a7ad78c"},
};

TEST(Compilers, GiveOneIr) {
  for (const Row& row : rows) {
    EXPECT_EQ(hash_after(row.body, false), row.canonical) << row.name << ", canonical";
    EXPECT_EQ(hash_after(row.body, true), row.optimised) << row.name << ", optimised";
  }
}

}  // namespace
}  // namespace tile
