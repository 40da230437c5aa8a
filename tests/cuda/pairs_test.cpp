// Tests pairs of CTAs: which blocks of a grid share what they multiply, and what a persistent kernel in pairs
// computes.
#include <gtest/gtest.h>

#include "cuda/async/pairs.h"
#include "cuda/async/persist.h"
#include "cuda/async_cases.h"

namespace tile::cuda {
namespace {

// Two right operands of one left one: of 64 x 32 and of 64 x 64 elements. `bounds` are those of their loop.
std::string product(const std::string& store = "store %c, %o, %i, %j {steps=[128,64]}",
                    const std::string& bounds = "%0, %t, %1", const std::string& right = "%k, %j") {
  return R"(kernel k(%a: array<bf16,2>, %b: array<bf16,2>, %c: array<bf16,2>, %n: array<i32,1>) {
  %i: i32 = bid {axis=0}
  %j: i32 = bid {axis=1}
  %h: i32 = bid {axis=2}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %d: i32 = dim %a {axis=1}
  %64: i32 = constant {dtype=i32, value=64}
  %t: i32 = cdiv %d, %64
  %li: i32[1] = load %n, %i {pad=0, shape=[1], steps=[1]}
  %lh: i32[1] = load %n, %h {pad=0, shape=[1], steps=[1]}
  %ni: i32 = reshape %li {shape=[]}
  %nh: i32 = reshape %lh {shape=[]}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[128,64] = broadcast %z {shape=[128,64]}
  %r: f32[128,64] = for )" +
         bounds + R"(, %zs (%k: i32, %acc: f32[128,64]) {
    %x: bf16[128,64] = load %a, %i, %k {pad=0.0, shape=[128,64], steps=[128,64]}
    %y: bf16[64,64] = load %b, )" +
         right + R"( {pad=0.0, shape=[64,64], steps=[64,64]}
    %m: f32[128,64] = mma %x, %y, %acc
    yield %m
  }
  %o: bf16[128,64] = astype %r {dtype=bf16}
  )" + store +
         "\n}\n";
}
std::optional<int> axis_of(const std::string& text) {
  const Function function = parse(text);
  return pair_axis(function, KernelArrays(function));
}

constexpr const char* whole = "store %c, %o, %i, %j {steps=[128,64]}";

TEST(PairAxis, IsThatOfTheLargerSharedOperand) {
  EXPECT_EQ(axis_of(product()), 1);  // %x does not depend on %j, and is twice as large as %y
  EXPECT_EQ(axis_of(with(product(), "[128,64]", "[32,64]")), 0);  // %y is the larger one
  // Without an operand of its own a block would compute what its neighbour does.
  EXPECT_EQ(axis_of(product(whole, "%0, %t, %1", "%k, %0")), 0);
  EXPECT_EQ(axis_of(with(product(whole, "%0, %t, %1", "%k, %0"), "load %a, %i, %k", "load %a, %0, %k")),
            std::nullopt);
}

TEST(PairAxis, NeedsEquallyManyProducts) {
  const auto axis = [](const std::string& bounds) { return axis_of(product(whole, bounds, "%k, %0")); };
  EXPECT_EQ(axis("%0, %t, %1"), 0);
  EXPECT_EQ(axis("%i, %t, %1"), std::nullopt);
  // A number in memory may be another one for each %i, but not for each %h.
  EXPECT_EQ(axis("%0, %ni, %1"), std::nullopt);
  EXPECT_EQ(axis("%0, %nh, %1"), 0);
}

// A block outside of the grid stores nothing, but could not take back what else it does.
TEST(PairAxis, NeedsKernelsThatOnlyStore) {
  EXPECT_EQ(axis_of(product("store %c, %o, %i, %j {steps=[128,64]}\n  print %t {format=\"%i\"}")),
            std::nullopt);
  EXPECT_EQ(axis_of(product("store %a, %o, %i, %j {steps=[128,64]}")), std::nullopt);
}

std::string sum_and_store() { return "store %c, %s, %i, %j {steps=[8,32]}\n"; }

// Runs the blocks of a 3 x 2 grid by so many pairs. Rows of blocks, or columns, are neighbours.
std::vector<float> run_in_pairs(int axis, int64_t pairs) {
  Function function = parse(product_and(sum_and_store(), 32));
  make_persistent(function, axis);
  verify(function, "make_persistent");
  move_stores_outside(function, function.body());
  verify(function, "move_stores_outside");
  const std::vector<Argument> extents = {scalar_argument(int32_t{3}), scalar_argument(int32_t{2}),
                                         scalar_argument(int32_t{1})};
  return run_product(print(function, false), 56, {2, pairs, 1}, extents);
}

TEST(Persist, PairsComputeTheSame) {
  const std::vector<float> expected = run_product(product_and(sum_and_store(), 32), 56);
  for (const int axis : {0, 1, 2})
    for (const int64_t pairs : {1, 2, 5}) EXPECT_EQ(run_in_pairs(axis, pairs), expected) << axis << pairs;
}

// The loop runs over pairs along axis 1. The second block of a pair may lie outside of the grid: it computes
// what the last block does, and stores nothing.
TEST(Persist, TextOfPairs) {
  Function function = parse(R"(kernel k(%a: array<f32,2>) {
  %i: i32 = bid {axis=0}
  %j: i32 = bid {axis=1}
  %0: f32 = constant {dtype=f32, value=0.0}
  %t: f32[8,8] = broadcast %0 {shape=[8,8]}
  store %a, %t, %i, %j {steps=[8,8]}
}
)");
  make_persistent(function, 1);
  const std::string text = print(function, false);
  EXPECT_EQ(text, R"(kernel k(%0: array<f32,2>, %1: i32, %2: i32, %3: i32) {
  %4: i32 = constant {dtype=i32, value=2}
  %5: i32 = cdiv %2, %4
  %6: i32 = bid {axis=0}
  %7: f32 = constant {dtype=f32, value=0.0}
  %8: i32 = bid {axis=1}
  %9: i32 = num_blocks {axis=1}
  %10: i32 = mul %1, %5
  %11: i32 = mul %10, %3
  for %8, %11, %9 (%12: i32) {
    %13: i32 = mod %12, %1
    %14: i32 = floordiv %12, %1
    %15: i32 = mod %14, %5
    %16: i32 = floordiv %14, %5
    %17: i32 = constant {dtype=i32, value=2}
    %18: i32 = mul %15, %17
    %19: i32 = add %18, %6
    %20: bool = lt %19, %2
    stores_if %20
    %21: i32 = constant {dtype=i32, value=1}
    %22: i32 = sub %2, %21
    %23: i32 = minimum %19, %22
    %24: f32[8,8] = broadcast %7 {shape=[8,8]}
    store %0, %24, %13, %23 {steps=[8,8]}
    yield
  }
}
)");
  EXPECT_EQ(print(parse(text), false), text);
  move_stores_outside(function, function.body());
  const std::string stored = R"(    %25: i32 = constant {dtype=i32, value=2147483647}
    %26: i32 = where %20, %13, %25
    store %0, %24, %26, %23)";
  EXPECT_EQ(print(function, false),
            with(with(text, "    stores_if %20\n", ""), "    store %0, %24, %13, %23", stored));
  // A promise that the tile is inside does not hold for the one outside.
  Function promised = parse(with(text, "%13, %23 {steps", "%13, %23 {in_bounds=1, steps"));
  move_stores_outside(promised, promised.body());
  EXPECT_EQ(print(promised, false).find("in_bounds"), std::string::npos);
}

// Divides a kernel whose CTAs are pairs along `axis` among its roles, and returns its text.
std::string roles_of(int axis) {
  Function function = parse(product());
  make_dense(function, 3);
  make_persistent(function, axis);
  const KernelArrays arrays(function);
  AsyncPlan plan(function, arrays, hopper, true);
  share_tiles(plan, function, arrays);
  return divided_among_roles(function, plan);
}

TEST(Roles, CopyHalvesOfWhatPairsShare) {
  const std::string text = roles_of(1);
  EXPECT_EQ(print(parse(text), false), text);
  const auto has = [](const std::string& in, const char* what) { return in.find(what) != std::string::npos; };
  EXPECT_TRUE(has(text, "{ring=0, shared=1, steps=[128,64], tile=0}"));
  EXPECT_TRUE(has(text, "{ring=0, steps=[64,64], tile=1}"));
  EXPECT_FALSE(has(text, "stores_if"));
  EXPECT_LT(text.find(": i32 = where "), text.find("store_async"));
  const std::string other = roles_of(0);
  EXPECT_TRUE(has(other, "{ring=0, steps=[128,64], tile=0}"));
  EXPECT_TRUE(has(other, "{ring=0, shared=1, steps=[64,64], tile=1}"));
}

// Each CTA copies half of a tile: half of its panels if their number is even, else half of each panel's rows,
// where a swizzle begins again. Panels of 8 rows have no such half.
TEST(ShareTiles, ATileThatBothReadHasHalves) {
  RingTile tile;
  tile.layout = in_panels(64, 256, 2, 128);
  EXPECT_TRUE(tile.halves_panels());
  tile.layout = in_panels(256, 64, 2, 128);
  EXPECT_FALSE(tile.halves_panels());
  EXPECT_TRUE(tile.has_halves());
  tile.layout = in_panels(64, 192, 2, 128);
  EXPECT_FALSE(tile.halves_panels());
  EXPECT_TRUE(tile.has_halves());
  tile.layout = in_panels(8, 64, 2, 128);
  EXPECT_FALSE(tile.has_halves());
}

// Only what has the hint runs in pairs, unless all do.
TEST(Pairs, NeedTheHintNumCtas) {
  Function function = parse(product());
  make_dense(function, 3);
  Target target = hopper;
  const auto cluster = [&] { return Program(function, target).cluster; };
  target.pairs = Pairs::hinted;
  EXPECT_EQ(cluster(), 1);
  function.attributes().set("hint.num_ctas", int64_t{2});
  EXPECT_EQ(cluster(), 2);
  EXPECT_EQ(Program(function, target).pair_axis, 1);
  target.pairs = Pairs::none;
  EXPECT_EQ(cluster(), 1);
  target.pairs = Pairs::all;
  function.attributes().erase("hint.num_ctas");
  EXPECT_EQ(cluster(), 2);
  target.cluster_blocks = 1;
  EXPECT_EQ(cluster(), 1);
}

}  // namespace
}  // namespace tile::cuda
