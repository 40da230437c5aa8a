// Tests which left operands registers hold, and the text of their products.
#include "cuda/async/held_operands.h"

#include <gtest/gtest.h>

#include "cuda/async_cases.h"

namespace tile::cuda {
namespace {

// For 128 rows of %k and %v, the sum over tiles of ROWS rows of %q: (k q^T + v q^T) q.
Function kernel(int rows, bool loads_both_ahead = true) {
  const std::string load_v =
      "%v: bf16[128,128] = load %c, %i, %0 {pad=0.0, shape=[128,128], steps=[128,128]}\n";
  const std::string text =
      R"(kernel k(%a: array<bf16,2>, %b: array<bf16,2>, %c: array<bf16,2>, %d: array<bf16,2>) {
  %i: i32 = bid {axis=0}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %n: i32 = dim %a {axis=0}
  %bk: i32 = constant {dtype=i32, value=ROWS}
  %t: i32 = cdiv %n, %bk
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[128,128] = broadcast %z {shape=[128,128]}
  %z2: f32[128,ROWS] = broadcast %z {shape=[128,ROWS]}
  %k: bf16[128,128] = load %b, %i, %0 {pad=0.0, shape=[128,128], steps=[128,128]}
)" + (loads_both_ahead ? load_v : "") +
      R"(  %r: f32[128,128] = for %0, %t, %1, %zs (%j: i32, %acc: f32[128,128]) {
    %q: bf16[ROWS,128] = load %a, %j, %0 {pad=0.0, shape=[ROWS,128], steps=[ROWS,128]}
    %qt: bf16[128,ROWS] = permute %q {axes=[1,0]}
)" + (loads_both_ahead ? "" : load_v) +
      R"(    %s: f32[128,ROWS] = mma %k, %qt, %z2
    %p: f32[128,ROWS] = mma %v, %qt, %z2
    %x: f32[128,ROWS] = add %s, %p
    %y: bf16[128,ROWS] = astype %x {dtype=bf16}
    %m: f32[128,128] = mma %y, %q, %acc
    yield %m
  }
  %o: bf16[128,128] = astype %r {dtype=bf16}
  store %d, %o, %i, %0 {steps=[128,128]}
}
)";
  Function function = parse(with(text, "ROWS", std::to_string(rows)));
  make_dense(function, 4);
  return function;
}
std::vector<const Op*> held(const Function& function) {
  const AsyncPlan plan(function, KernelArrays(function), hopper, false);
  EXPECT_EQ(plan.why_not, "");
  return plan.held;
}

TEST(HeldOperands, AreThoseOfNarrowProductsOfALoop) {
  const Function function = kernel(64);
  const std::vector<const Op*> found = held(function);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]->operands[0]->definition->operands[0], function.body().arguments[2]);
  EXPECT_EQ(found[1]->operands[0]->definition->operands[0], function.body().arguments[1]);
}

TEST(HeldOperands, AreNotOfWideProducts) { EXPECT_EQ(held(kernel(128)).size(), 0u); }

TEST(HeldOperands, AreNotLoadedByTheLoop) { EXPECT_EQ(held(kernel(64, false)).size(), 0u); }

TEST(HeldOperands, AreReadInFrontOfTheLoop) {
  Function function = kernel(64);
  const AsyncPlan plan(function, KernelArrays(function), hopper, false);
  const std::string text = divided_among_roles(function, plan);
  const auto line_with = [&](const std::string& part) {
    const size_t at = text.find(part);
    if (at == std::string::npos) return part + " is missing";
    const size_t begin = text.rfind('\n', at) + 1;
    return text.substr(begin, text.find('\n', at) - begin);
  };
  const size_t loop = text.rfind("= for"), first = text.find("ring_left");
  EXPECT_LT(first, loop);
  EXPECT_GT(text.find("mma_issue"), loop);
  const std::string read = line_with("ring_left");
  EXPECT_NE(read.find(": bf16[128,64] = ring_left {dtype=bf16, ring="), std::string::npos) << read;
  const std::string name = read.substr(read.find('%'), read.find(':') - read.find('%'));
  EXPECT_NE(text.find(", " + name + " {left_transposed=0, right_transposed=1}"), std::string::npos) << text;
}

TEST(HeldOperands, AreAChoiceOfTheConfiguration) {
  const Function function = kernel(64);
  EXPECT_NE(Program(function, hopper).source.find("mma_issued_with<"), std::string::npos);
  EXPECT_EQ(Program(function, hopper, {.hold = false}).source.find("mma_issued_with<"), std::string::npos);
}

}  // namespace
}  // namespace tile::cuda
