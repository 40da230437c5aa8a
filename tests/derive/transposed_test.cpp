// Tests transposed kernels: how they write gradients, their text and their values, and where there is none.
#include "gradients.h"

#include "ir/walk.h"

namespace tile {
namespace {

Derived owned(std::string_view text) { return derived_kernel(text, -1, Sharing::owner); }
std::vector<std::string> hows(const Derived& derived) {
  std::vector<std::string> list;
  for (const DerivedGradient& each : derived.gradients) list.push_back(how_text(each));
  return list;
}
size_t count(const Function& function, std::string_view name) {
  size_t found = 0;
  walk(function.body(), [&](const Op& op) { found += op.is(name); });
  return found;
}

// tanh(a @ b + c), by tiles of 4 x 2 and 3 columns of `a` at once.
constexpr std::string_view product =
    R"(kernel product(%a: array<f64,2>, %b: array<f64,2>, %c: array<f64,1>, %o: array<f64,2>) {
  %row: i32 = bid {axis=0}
  %column: i32 = bid {axis=1}
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  %three: i32 = constant {dtype=i32, value=3}
  %size: i32 = dim %a {axis=1}
  %n: i32 = cdiv %size, %three
  %nought: f64 = constant {dtype=f64, value=0.0}
  %start: f64[4,2] = broadcast %nought {shape=[4,2]}
  %sum: f64[4,2] = for %zero, %n, %one, %start (%k: i32, %acc: f64[4,2]) {
    %x: f64[4,3] = load %a, %row, %k {pad=0.0, shape=[4,3], steps=[4,3]}
    %y: f64[3,2] = load %b, %k, %column {pad=0.0, shape=[3,2], steps=[3,2]}
    %next: f64[4,2] = mma %x, %y, %acc
    yield %next
  }
  %d: f64[2] = load %c, %column {pad=0.0, shape=[2], steps=[2]}
  %e: f64[1,2] = reshape %d {shape=[1,2]}
  %f: f64[4,2] = broadcast %e {shape=[4,2]}
  %g: f64[4,2] = add %sum, %f
  %h: f64[4,2] = tanh %g
  store %o, %h, %row, %column {steps=[4,2]}
}
)";

TEST(Transposed, ProductsAreOwnedByBlocksOfTheirOperands) {
  const Derived derived = owned(product);
  EXPECT_EQ(hows(derived), (std::vector<std::string>{"stored by a kernel that loops over grid axis 1",
                                                     "stored by a kernel that loops over grid axis 0",
                                                     "summed over grid axis 0"}));
  EXPECT_EQ(derived.gradients[2].why, "it is not added to in one loop");
  ASSERT_EQ(derived.transposed.size(), 2u);
  // The product and its adjoint are kept, and each gradient is a product that adds up in registers.
  ASSERT_EQ(derived.kept.size(), 2u);
  for (const DerivedScratch& each : derived.kept) EXPECT_EQ(each.shape, (Shape{4, 2}));
  EXPECT_EQ(count(derived.function, "mma"), 1u);
  // The sum over rows that the third gradient needs is left to a kernel without products.
  EXPECT_EQ(count(derived.function, "reduce_sum"), 0u);
  EXPECT_EQ(count(derived.function, "tanh"), 0u);
  ASSERT_TRUE(derived.remainder.has_value());
  EXPECT_EQ(count(*derived.remainder, "reduce_sum"), 1u);
  EXPECT_EQ(count(*derived.remainder, "mma"), 0u);
  for (const TransposedKernel& each : derived.transposed) {
    EXPECT_EQ(count(each.function, "mma"), 1u);
    EXPECT_EQ(count(each.function, "tanh"), 0u);
    EXPECT_EQ(each.gradients.size(), 1u);
    EXPECT_FALSE(derived.gradients[each.gradients[0]].covers.empty());
    EXPECT_EQ(each.width, 4);
  }
}

TEST(Transposed, ValuesOfAProduct) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{9, 5, 7}, {4, 2, 3}, {1, 1, 1}, {3, 4, 10}})
    check_gradients(
        product, {(m + 3) / 4, (n + 1) / 2},
        {random_array({m, k}, 1), random_array({k, n}, 2), random_array({n}, 3), random_array({m, n}, 4)});
}
TEST(Transposed, ALoopWithoutIterations) {
  check_gradients(
      product, {2, 2},
      {random_array({5, 0}, 1), random_array({0, 3}, 2), random_array({3}, 3), random_array({5, 3}, 4)});
}

// The loop of block %row ends after its own iteration, as in causal attention.
constexpr std::string_view triangle =
    R"(kernel triangle(%a: array<f64,1>, %o: array<f64,2>) {
  %row: i32 = bid {axis=0}
  %column: i32 = bid {axis=1}
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  %n: i32 = add %column, %one
  %nought: f64 = constant {dtype=f64, value=0.0}
  %start: f64[2] = broadcast %nought {shape=[2]}
  %sum: f64[2] = for %zero, %n, %one, %start (%k: i32, %acc: f64[2]) {
    %x: f64[2] = load %a, %k {pad=0.0, shape=[2], steps=[2]}
    %y: f64[2] = sin %x
    %next: f64[2] = add %acc, %y
    yield %next
  }
  %z: f64[1,2] = reshape %sum {shape=[1,2]}
  %w: f64[1,2] = mul %z, %z
  store %o, %w, %row, %column {steps=[1,2]}
}
)";
TEST(Transposed, ElementsThatBlocksOfTwoAxesShareAreNotOwned) {
  EXPECT_EQ(hows(owned(triangle)), std::vector<std::string>{"summed over grid axis 0 and 1"});
  check_gradients(triangle, {2, 3}, {random_array({6}, 1), random_array({2, 6}, 2)});
}

TEST(Transposed, BoundsThatDependOnABlockOfTheGrid) {
  const std::string text = [] {
    std::string made(product);
    const std::string_view bound = "%n: i32 = cdiv %size, %three";
    made.replace(made.find(bound), bound.size(),
                 "%m: i32 = cdiv %size, %three\n  %n: i32 = minimum %m, %row");
    return made;
  }();
  // The blocks along axis 1 agree on the number of iterations, those along axis 0 do not.
  const Derived derived = owned(text);
  ASSERT_EQ(derived.transposed.size(), 2u);
  EXPECT_EQ(count(derived.transposed[0].function, "if"), 0u);
  EXPECT_EQ(count(derived.transposed[1].function, "if"), 1u);
  check_gradients(
      text, {4, 3},
      {random_array({14, 7}, 1), random_array({7, 5}, 2), random_array({5}, 3), random_array({14, 5}, 4)});
}

}  // namespace
}  // namespace tile
