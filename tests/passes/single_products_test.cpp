// Tests products of batches with one matrix.
#include "pass_text.h"

namespace tile {
namespace {

// Through two loops; initial values and results keep their shape outside of the loops.
TEST(SingleProducts, SumsThatLoopsCarry) {
  EXPECT_EQ(after("single_products", R"(kernel k(%x: array<bf16,3>, %y: array<f32,3>, %n: i32) {
  %i: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %a: f32[1,4,4] = load %y, %i, %i, %i {pad=0.0, shape=[1,4,4], steps=[1,4,4]}
  %r: f32[1,4,4] = for %i, %n, %1, %a (%j: i32, %s: f32[1,4,4]) {
    %q: f32[1,4,4] = for %i, %n, %1, %s (%k: i32, %t: f32[1,4,4]) {
      %b: bf16[1,4,4] = load %x, %i, %j, %k {pad=0.0, shape=[1,4,4], steps=[1,4,4]}
      %m: f32[1,4,4] = mma %b, %b, %t
      yield %m
    }
    yield %q
  }
  store %y, %r, %i, %i, %i {steps=[1,4,4]}
})"),
            R"(kernel k(%0: array<bf16,3>, %1: array<f32,3>, %2: i32) {
  %3: i32 = constant {dtype=i32, value=0}
  %4: i32 = constant {dtype=i32, value=1}
  %5: f32[1,4,4] = load %1, %3, %3, %3 {pad=0.0, shape=[1,4,4], steps=[1,4,4]}
  %6: f32[4,4] = reshape %5 {shape=[4,4]}
  %7: f32[4,4] = for %3, %2, %4, %6 (%8: i32, %9: f32[4,4]) {
    %10: f32[4,4] = reshape %9 {shape=[4,4]}
    %11: f32[4,4] = for %3, %2, %4, %9 (%12: i32, %13: f32[4,4]) {
      %14: bf16[1,4,4] = load %0, %3, %8, %12 {pad=0.0, shape=[1,4,4], steps=[1,4,4]}
      %15: bf16[4,4] = reshape %14 {shape=[4,4]}
      %16: bf16[4,4] = reshape %14 {shape=[4,4]}
      %17: f32[4,4] = reshape %13 {shape=[4,4]}
      %18: f32[4,4] = mma %15, %16, %13
      %19: f32[1,4,4] = reshape %18 {shape=[1,4,4]}
      yield %18
    }
    %20: f32[1,4,4] = reshape %11 {shape=[1,4,4]}
    yield %11
  }
  %21: f32[1,4,4] = reshape %7 {shape=[1,4,4]}
  store %1, %21, %3, %3, %3 {steps=[1,4,4]}
}
)");
}

// The sum is also read in another shape; batches of two.
TEST(SingleProducts, Others) {
  EXPECT_EQ(
      after("single_products", R"(kernel k(%x: bf16[1,4,4], %z: bf16[2,4,4], %y: array<f32,3>, %n: i32) {
  %i: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %a: f32[1,4,4] = load %y, %i, %i, %i {pad=0.0, shape=[1,4,4], steps=[1,4,4]}
  %r: f32[1,4,4] = for %i, %n, %1, %a (%j: i32, %s: f32[1,4,4]) {
    %d: f32[1,4,4] = neg %s
    %m: f32[1,4,4] = mma %x, %x, %d
    yield %m
  }
  store %y, %r, %i, %i, %i {steps=[1,4,4]}
  %b: f32[2,4,4] = load %y, %i, %i, %i {pad=0.0, shape=[2,4,4], steps=[2,4,4]}
  %c: f32[2,4,4] = mma %z, %z, %b
  store %y, %c, %i, %i, %i {steps=[2,4,4]}
})"),
      R"(kernel k(%0: bf16[1,4,4], %1: bf16[2,4,4], %2: array<f32,3>, %3: i32) {
  %4: i32 = constant {dtype=i32, value=0}
  %5: i32 = constant {dtype=i32, value=1}
  %6: f32[1,4,4] = load %2, %4, %4, %4 {pad=0.0, shape=[1,4,4], steps=[1,4,4]}
  %7: f32[1,4,4] = for %4, %3, %5, %6 (%8: i32, %9: f32[1,4,4]) {
    %10: f32[1,4,4] = neg %9
    %11: bf16[4,4] = reshape %0 {shape=[4,4]}
    %12: bf16[4,4] = reshape %0 {shape=[4,4]}
    %13: f32[4,4] = reshape %10 {shape=[4,4]}
    %14: f32[4,4] = mma %11, %12, %13
    %15: f32[1,4,4] = reshape %14 {shape=[1,4,4]}
    yield %15
  }
  store %2, %7, %4, %4, %4 {steps=[1,4,4]}
  %16: f32[2,4,4] = load %2, %4, %4, %4 {pad=0.0, shape=[2,4,4], steps=[2,4,4]}
  %17: f32[2,4,4] = mma %1, %1, %16
  store %2, %17, %4, %4, %4 {steps=[2,4,4]}
}
)");
}

}  // namespace
}  // namespace tile
