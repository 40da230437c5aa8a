// Tests exact identities.
#include "pass_text.h"

namespace tile {
namespace {

// x + 0 changes -0 to 0, so it stays; x + -0, x - 0 and x * 1 are x.
TEST(Simplify, ZeroLeavesFloatsOnlyWithTheRightSign) {
  EXPECT_EQ(after("simplify", R"(kernel k(%x: f32, %p: f32, %i: i32) {
  %zero: f32 = constant {dtype=f32, value=0.0}
  %minus: f32 = constant {dtype=f32, value=-0.0}
  %one: f32 = constant {dtype=f32, value=1.0}
  %0: f32 = add %x, %zero
  %1: f32 = add %x, %minus
  %2: f32 = sub %x, %zero
  %3: f32 = sub %x, %minus
  %4: f32 = mul %x, %one
  %5: f32 = mul %x, %zero
  %6: f32 = div %x, %one
  %7: f32 = fma %1, %2, %4
  %8: f32 = fma %6, %6, %6
})"),
            R"(kernel k(%0: f32, %1: f32, %2: i32) {
  %3: f32 = constant {dtype=f32, value=0.0}
  %4: f32 = constant {dtype=f32, value=-0.0}
  %5: f32 = constant {dtype=f32, value=1.0}
  %6: f32 = add %0, %3
  %7: f32 = sub %0, %4
  %8: f32 = mul %0, %3
  %9: f32 = fma %0, %0, %0
  %10: f32 = fma %0, %0, %0
}
)");
}

TEST(Simplify, Integers) {
  EXPECT_EQ(after("simplify", R"(kernel k(%x: i32, %y: i32) {
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  %ones: i32 = constant {dtype=i32, value=-1}
  %0: i32 = add %x, %zero
  %1: i32 = mul %0, %one
  %2: i32 = floordiv %1, %one
  %3: i32 = cdiv %2, %one
  %4: i32 = bitwise_and %3, %ones
  %5: i32 = bitwise_or %4, %zero
  %6: i32 = bitwise_xor %5, %zero
  %7: i32 = shift_left %6, %zero
  %8: i32 = minimum %7, %7
  %9: i32 = maximum %8, %y
  %10: i32 = minimum %9, %8
  %11: i32 = neg %10
  %12: i32 = add %y, %11
  %13: i32 = sub %12, %11
  %14: i32 = mul %x, %zero
  %15: i32 = mod %x, %one
  %16: i32 = sub %x, %x
  %17: bool = le %x, %x
  %18: bool = ne %x, %x
})"),
            R"(kernel k(%0: i32, %1: i32) {
  %2: i32 = constant {dtype=i32, value=0}
  %3: i32 = constant {dtype=i32, value=1}
  %4: i32 = constant {dtype=i32, value=-1}
  %5: i32 = maximum %0, %1
  %6: i32 = neg %0
  %7: i32 = sub %1, %0
  %8: i32 = add %7, %0
  %9: i32 = constant {dtype=i32, value=0}
  %10: i32 = constant {dtype=i32, value=0}
  %11: bool = constant {dtype=bool, value=1}
  %12: bool = constant {dtype=bool, value=0}
}
)");
}

TEST(Simplify, SelfComparisonOfFloatsStays) {
  EXPECT_EQ(after("simplify", R"(kernel k(%x: f32) {
  %0: bool = eq %x, %x
  %1: f32 = sub %x, %x
})"),
            R"(kernel k(%0: f32) {
  %1: bool = eq %0, %0
  %2: f32 = sub %0, %0
}
)");
}

TEST(Simplify, Where) {
  EXPECT_EQ(after("simplify", R"(kernel k(%c: bool, %x: f32, %y: f32) {
  %true: bool = constant {dtype=bool, value=1}
  %false: bool = constant {dtype=bool, value=0}
  %0: f32 = where %true, %x, %y
  %1: f32 = where %false, %0, %y
  %2: f32 = where %c, %1, %1
  %3: bool = logical_not %c
  %4: f32 = where %3, %0, %2
  %5: bool = logical_not %3
  %6: bool = where %5, %true, %false
  %7: bool = bitwise_and %6, %true
  %8: f32 = where %7, %x, %4
})"),
            R"(kernel k(%0: bool, %1: f32, %2: f32) {
  %3: bool = constant {dtype=bool, value=1}
  %4: bool = constant {dtype=bool, value=0}
  %5: bool = logical_not %0
  %6: f32 = where %0, %2, %1
  %7: f32 = where %0, %1, %6
}
)");
}

// f16 -> f32 -> f16 and i8 -> f32 -> i8 are exact; i8 -> f32 -> u8 saturates where i8 -> u8 wraps.
TEST(Simplify, Casts) {
  EXPECT_EQ(after("simplify", R"(kernel k(%h: f16, %i: i8, %f: f32) {
  %0: f32 = astype %h {dtype=f32}
  %1: f16 = astype %0 {dtype=f16}
  %2: f64 = astype %0 {dtype=f64}
  %3: f16 = astype %f {dtype=f16}
  %4: f32 = astype %3 {dtype=f32}
  %5: f32 = astype %i {dtype=f32}
  %6: i8 = astype %5 {dtype=i8}
  %7: u8 = astype %5 {dtype=u8}
  %8: f16 = add %1, %3
  %9: i8 = neg %6
})"),
            R"(kernel k(%0: f16, %1: i8, %2: f32) {
  %3: f32 = astype %0 {dtype=f32}
  %4: f64 = astype %0 {dtype=f64}
  %5: f16 = astype %2 {dtype=f16}
  %6: f32 = astype %5 {dtype=f32}
  %7: f32 = astype %1 {dtype=f32}
  %8: u8 = astype %7 {dtype=u8}
  %9: f16 = add %0, %5
  %10: i8 = neg %1
}
)");
}

TEST(Simplify, Shapes) {
  EXPECT_EQ(after("simplify", R"(kernel k(%x: f32, %r: f32[4,1]) {
  %0: f32[4,1] = broadcast %x {shape=[4,1]}
  %1: f32[4,8] = broadcast %0 {shape=[4,8]}
  %2: f32[32] = reshape %1 {shape=[32]}
  %3: f32[8,4] = permute %1 {axes=[1,0]}
  %4: f32[2,2] = reshape %r {shape=[2,2]}
  %5: f32[4] = reshape %4 {shape=[4]}
  %6: f32[4,1] = reshape %4 {shape=[4,1]}
  %7: f32[1,4] = permute %6 {axes=[1,0]}
  %8: f32[4,1] = permute %7 {axes=[1,0]}
  %9: f32[4,8] = broadcast %8 {shape=[4,8]}
  %10: f16[4,8] = astype %9 {dtype=f16}
})"),
            R"(kernel k(%0: f32, %1: f32[4,1]) {
  %2: f32[4,1] = broadcast %0 {shape=[4,1]}
  %3: f32[4,8] = broadcast %0 {shape=[4,8]}
  %4: f32[32] = broadcast %0 {shape=[32]}
  %5: f32[8,4] = broadcast %0 {shape=[8,4]}
  %6: f32[2,2] = reshape %1 {shape=[2,2]}
  %7: f32[4] = reshape %1 {shape=[4]}
  %8: f32[1,4] = permute %1 {axes=[1,0]}
  %9: f32[4,8] = broadcast %1 {shape=[4,8]}
  %10: f16[4,1] = astype %1 {dtype=f16}
  %11: f16[4,8] = broadcast %10 {shape=[4,8]}
}
)");
}

}  // namespace
}  // namespace tile
