// Tests that equal ops and loads are merged if memory allows it.
#include "pass_text.h"

namespace tile {
namespace {

TEST(Cse, PureOpsAnywhereDominated) {
  EXPECT_EQ(after("cse", R"(kernel k(%x: array<i32,1>, %n: i32, %c: bool) {
  %a: i32 = add %n, %n
  %b: i32 = floordiv %a, %n
  if %c () {
    %d: i32 = add %n, %n
    %e: i32 = floordiv %d, %n
    %f: i32 = mul %e, %d
    %t: i32[2] = broadcast %f {shape=[2]}
    store %x, %t, %e {steps=[2]}
    yield
  } () {
    %f: i32 = mul %b, %a
    %g: i32 = mul %a, %b
    %t: i32[2] = broadcast %f {shape=[2]}
    store %x, %t, %g {steps=[2]}
    yield
  }
})"),
            R"(kernel k(%0: array<i32,1>, %1: i32, %2: bool) {
  %3: i32 = add %1, %1
  %4: i32 = floordiv %3, %1
  if %2 () {
    %5: i32 = mul %4, %3
    %6: i32[2] = broadcast %5 {shape=[2]}
    store %0, %6, %4 {steps=[2]}
    yield
  } () {
    %7: i32 = mul %4, %3
    %8: i32[2] = broadcast %7 {shape=[2]}
    store %0, %8, %7 {steps=[2]}
    yield
  }
}
)");
}

TEST(Cse, LoadsUntilAWrite) {
  EXPECT_EQ(after("cse", R"(kernel k(%x: array<f32,1>, %y: array<f32,1>, %n: i32) {
  %a: f32[4] = load %x, %n {pad=0.0, shape=[4], steps=[4]}
  store %y, %a, %n {steps=[4]}
  %b: f32[4] = load %x, %n {pad=0.0, shape=[4], steps=[4]}
  %p: f32[4] = load %x, %n {pad=1.0, shape=[4], steps=[4]}
  %s: f32[4] = sub %b, %p
  store %x, %s, %n {steps=[4]}
  %c: f32[4] = load %x, %n {pad=0.0, shape=[4], steps=[4]}
  store %y, %c, %n {steps=[4]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: array<f32,1>, %2: i32) {
  %3: f32[4] = load %0, %2 {pad=0.0, shape=[4], steps=[4]}
  store %1, %3, %2 {steps=[4]}
  %4: f32[4] = load %0, %2 {pad=1.0, shape=[4], steps=[4]}
  %5: f32[4] = sub %3, %4
  store %0, %5, %2 {steps=[4]}
  %6: f32[4] = load %0, %2 {pad=0.0, shape=[4], steps=[4]}
  store %1, %6, %2 {steps=[4]}
}
)");
}

// The first load in the loop may see an earlier iteration's store; the second one sees the same as the first.
TEST(Cse, LoopsThatWrite) {
  EXPECT_EQ(after("cse", R"(kernel k(%x: array<f32,1>, %y: array<f32,1>, %n: i32) {
  %a: f32[4] = load %x, %n {pad=0.0, shape=[4], steps=[4]}
  %b: f32[4] = load %y, %n {pad=0.0, shape=[4], steps=[4]}
  %one: i32 = constant {dtype=i32, value=1}
  for %one, %n, %one (%i: i32) {
    %c: f32[4] = load %x, %n {pad=0.0, shape=[4], steps=[4]}
    %d: f32[4] = load %x, %n {pad=0.0, shape=[4], steps=[4]}
    %e: f32[4] = load %y, %n {pad=0.0, shape=[4], steps=[4]}
    %s: f32[4] = fma %c, %d, %e
    store %x, %s, %i {steps=[4]}
    yield
  }
  %f: f32[4] = load %x, %n {pad=0.0, shape=[4], steps=[4]}
  %g: f32[4] = fma %a, %b, %f
  store %x, %g, %n {steps=[4]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: array<f32,1>, %2: i32) {
  %3: f32[4] = load %0, %2 {pad=0.0, shape=[4], steps=[4]}
  %4: f32[4] = load %1, %2 {pad=0.0, shape=[4], steps=[4]}
  %5: i32 = constant {dtype=i32, value=1}
  for %5, %2, %5 (%6: i32) {
    %7: f32[4] = load %0, %2 {pad=0.0, shape=[4], steps=[4]}
    %8: f32[4] = fma %7, %7, %4
    store %0, %8, %6 {steps=[4]}
    yield
  }
  %9: f32[4] = load %0, %2 {pad=0.0, shape=[4], steps=[4]}
  %10: f32[4] = fma %3, %4, %9
  store %0, %10, %2 {steps=[4]}
}
)");
}

TEST(Cse, BarriersForgetEverything) {
  EXPECT_EQ(after("cse", R"(kernel k(%x: array<f32,1>, %y: array<f32,1>, %n: i32) {
  %a: f32[1] = load %x, %n {pad=0.0, shape=[1], steps=[1]}
  %i: i32[1] = arange {dtype=i32, size=1}
  %q: f32[1] = atomic_add %y, %a, %i
  %b: f32[1] = load %x, %n {pad=0.0, shape=[1], steps=[1]}
  store %y, %b, %n {steps=[1]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: array<f32,1>, %2: i32) {
  %3: f32[1] = load %0, %2 {pad=0.0, shape=[1], steps=[1]}
  %4: i32[1] = arange {dtype=i32, size=1}
  %5: f32[1] = atomic_add %1, %3, %4
  %6: f32[1] = load %0, %2 {pad=0.0, shape=[1], steps=[1]}
  store %1, %6, %2 {steps=[1]}
}
)");
}

}  // namespace
}  // namespace tile
