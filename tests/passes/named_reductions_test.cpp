// Tests reductions whose region is one op.
#include "pass_text.h"

namespace tile {
namespace {

TEST(NamedReductions, OfOneOpOfBothArguments) {
  EXPECT_EQ(after("named_reductions", R"(kernel k(%x: array<f32,2>, %y: array<f32,1>) {
  %i: i32 = constant {dtype=i32, value=0}
  %t: f32[4,8] = load %x, %i, %i {pad=0.0, shape=[4,8], steps=[4,8]}
  %s: f32[4], %m: f32[4] = reduce %t, %t {axis=1} (%a: f32, %b: f32, %c: f32, %d: f32) {
    %e: f32 = add %c, %a
    %f: f32 = maximum %b, %d
    yield %e, %f
  }
  store %y, %s, %i {steps=[4]}
  store %y, %m, %i {steps=[4]}
})"),
            R"(kernel k(%0: array<f32,2>, %1: array<f32,1>) {
  %2: i32 = constant {dtype=i32, value=0}
  %3: f32[4,8] = load %0, %2, %2 {pad=0.0, shape=[4,8], steps=[4,8]}
  %4: f32[4] = reduce_sum %3 {axes=[1]}
  %5: f32[4] = reduce_max %3 {axes=[1]}
  store %1, %4, %2 {steps=[4]}
  store %1, %5, %2 {steps=[4]}
}
)");
}

TEST(NamedReductions, OfBoolAndIntegers) {
  EXPECT_EQ(
      after("named_reductions", R"(kernel k(%t: bool[8], %u: i8[8], %x: array<bool,1>, %y: array<i8,1>) {
  %i: i32 = constant {dtype=i32, value=0}
  %r: bool = reduce %t {axis=0} (%a: bool, %b: bool) {
    %c: bool = bitwise_or %a, %b
    yield %c
  }
  %s: i8 = reduce %u {axis=0} (%a: i8, %b: i8) {
    %c: i8 = mul %a, %b
    yield %c
  }
  scatter %x, %r, %i
  scatter %y, %s, %i
})"),
      R"(kernel k(%0: bool[8], %1: i8[8], %2: array<bool,1>, %3: array<i8,1>) {
  %4: i32 = constant {dtype=i32, value=0}
  %5: bool = reduce_any %0 {axes=[0]}
  %6: i8 = reduce_prod %1 {axes=[0]}
  scatter %2, %5, %4
  scatter %3, %6, %4
}
)");
}

// A 16-bit sum rounds at each step; the other regions are no single op of both arguments.
TEST(NamedReductions, LeavesTheOthers) {
  for (const char* region : {"%c: f16 = add %a, %b\n yield %c", "%c: f16 = maximum %a, %a\n yield %c",
                             "%c: f16 = sub %a, %b\n yield %c", "%c: f16 = neg %b\n yield %c", "yield %b",
                             "%c: f16 = maximum %a, %b\n %d: f16 = maximum %c, %b\n yield %d"}) {
    const std::string text = std::string(R"(kernel k(%t: f16[8], %x: array<f16,1>) {
  %i: i32 = constant {dtype=i32, value=0}
  %r: f16 = reduce %t {axis=0} (%a: f16, %b: f16) {
    )") + region + R"(
  }
  scatter %x, %r, %i
})";
    EXPECT_NE(after("named_reductions", text).find("reduce %0"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tile
