// Tests of the tiles that loops of products load beside their operands.
#include "cuda/async/loop_tiles.h"

#include "cuda/async_cases.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

// Scores of 128 queries and 64 keys get a bias, and multiply the values.
std::string biased(const std::string& load = "load %bias, %i, %j {pad=0.0, shape=[128,64], steps=[128,64]}",
                   const std::string& dtype = "bf16") {
  return with(
      with(
          R"(kernel k(%query: array<bf16,2>, %key: array<bf16,2>, %value: array<bf16,2>, %bias: array<TYPE,2>, %out: array<bf16,2>) {
  %i: i32 = bid {axis=0}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %n: i32 = constant {dtype=i32, value=3}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[128,64] = broadcast %z {shape=[128,64]}
  %across: array<TYPE,2> = permute_array %bias {axes=[1,0]}
  %q: bf16[128,64] = load %query, %i, %0 {pad=0.0, shape=[128,64], steps=[128,64]}
  %o: f32[128,64] = for %0, %n, %1, %zs (%j: i32, %x: f32[128,64]) {
    %k: bf16[64,64] = load %key, %j, %0 {pad=0.0, shape=[64,64], steps=[64,64]}
    %kt: bf16[64,64] = permute %k {axes=[1,0]}
    %s: f32[128,64] = mma %q, %kt, %zs
    %b: TYPE[128,64] = LOAD
    %c: f32[128,64] = astype %b {dtype=f32}
    %e: f32[128,64] = add %s, %c
    %p: bf16[128,64] = astype %e {dtype=bf16}
    %v: bf16[64,64] = load %value, %j, %0 {pad=0.0, shape=[64,64], steps=[64,64]}
    %m: f32[128,64] = mma %p, %v, %x
    yield %m
  }
  %w: bf16[128,64] = astype %o {dtype=bf16}
  store %out, %w, %i, %0 {steps=[128,64]}
}
)",
          "LOAD", load),
      "TYPE", dtype);
}
Function function_of(const std::string& text) {
  Function function = parse(text);
  make_dense(function, 5);
  return function;
}
AsyncPlan plan_of(const Function& function, const Target& target = hopper) {
  return {function, KernelArrays(function), target, false};
}
std::vector<int64_t> tile_bytes(const AsyncPlan& plan) {
  std::vector<int64_t> bytes;
  for (const AsyncRing& ring : plan.rings)
    if (ring.kind == AsyncRing::Kind::tiles) bytes.push_back(ring.stage_bytes);
  return bytes;
}

// The producer copies the tile; each warp reads its part before it awaits the product that it is added to.
TEST(LoopTiles, ComeThroughARing) {
  Function function = function_of(biased());
  const AsyncPlan plan = plan_of(function);
  ASSERT_EQ(plan.why_not, "");
  EXPECT_EQ(tile_bytes(plan), std::vector<int64_t>{128 * 64 * 2});
  const std::string text = divided_among_roles(function, plan);
  const size_t read = text.find("ring_read");
  ASSERT_NE(read, std::string::npos);
  EXPECT_LT(text.find("mma_issue"), read);
  EXPECT_LT(read, text.find("mma_await"));
  EXPECT_EQ(text.find("ring_read", read + 1), std::string::npos);
  EXPECT_EQ(text.find("= load %bias"), std::string::npos);
  EXPECT_EQ(print(parse(text), false), text);
}

// A view whose rows lie across is copied as it lies in memory.
TEST(LoopTiles, LieAcross) {
  const Function function =
      function_of(biased("load %across, %i, %j {pad=0.0, shape=[128,64], steps=[128,64]}"));
  const AsyncPlan plan = plan_of(function);
  ASSERT_EQ(plan.why_not, "");
  ASSERT_EQ(tile_bytes(plan), std::vector<int64_t>{128 * 64 * 2});
  for (const AsyncRing& ring : plan.rings)
    if (ring.kind == AsyncRing::Kind::tiles) EXPECT_EQ(ring.tiles[0].layout.major, Major::rows);
}

TEST(LoopTiles, HaveElementsOfTwoOrFourBytes) {
  EXPECT_EQ(tile_bytes(plan_of(
                function_of(biased("load %bias, %i, %j {pad=0.0, shape=[128,64], steps=[128,64]}", "f32")))),
            std::vector<int64_t>{128 * 64 * 4});
  EXPECT_EQ(plan_of(function_of(biased("load %bias, %i, %j {pad=0.0, shape=[128,64], steps=[128,64]}", "i8")))
                .why_not,
            "the loop of a product loads a tile that is no operand");
}

// The copy unit pads with zeros and asks for aligned arrays that the kernel does not write.
TEST(LoopTiles, OthersAreLoadedByThreads) {
  const std::string why = "the loop of a product loads a tile that is no operand";
  EXPECT_EQ(
      plan_of(function_of(biased("load %bias, %i, %j {pad=1.0, shape=[128,64], steps=[128,64]}"))).why_not,
      why);
  EXPECT_EQ(
      plan_of(function_of(biased("load %out, %i, %j {pad=0.0, shape=[128,64], steps=[128,64]}"))).why_not,
      why);
  Function unaligned = function_of(biased());
  unaligned.attributes().erase("array.3.aligned");
  EXPECT_EQ(plan_of(unaligned).why_not, why);
}

// Where two stages of operands and tiles do not fit, the tiles have none.
TEST(LoopTiles, LeaveRoomForOperands) {
  Target small = hopper;
  small.shared_bytes = 60 * 1024;
  const AsyncPlan plan = plan_of(function_of(biased()), small);
  EXPECT_EQ(tile_bytes(plan), std::vector<int64_t>{});
  EXPECT_EQ(plan.why_not, "the loop of a product loads a tile that is no operand");
}

// Each group stores its part of a tile that no product decides, so that no barrier orders such stores.
TEST(OtherTiles, AreDividedAmongGroups) {
  const std::string text =
      with(with(biased(), "%out: array<bf16,2>)", "%out: array<bf16,2>, %sums: array<f32,2>)"),
           "  store %out, %w, %i, %0 {steps=[128,64]}\n",
           "  store %out, %w, %i, %0 {steps=[128,64]}\n  store %sums, %o, %i, %0 {steps=[128,64]}\n"
           "  for %1, %n, %1 (%a: i32) {\n    store %sums, %zs, %i, %a {steps=[128,64]}\n    yield\n  }\n");
  Function function = parse(text);
  make_dense(function, 6);
  EXPECT_EQ(Program(function, hopper).why, "");
}

}  // namespace
}  // namespace tile::cuda
