// Tests known branches and loops, and carried values that do not change.
#include "pass_text.h"

namespace tile {
namespace {

TEST(SimplifyControl, KnownBranches) {
  EXPECT_EQ(after("simplify_control", R"(kernel k(%x: array<f32,1>, %v: f32[4]) {
  %i: i32 = bid {axis=0}
  %true: bool = constant {dtype=bool, value=1}
  %r: f32[4] = if %true () {
    %a: f32[4] = neg %v
    store %x, %a, %i {steps=[4]}
    yield %a
  } () {
    yield %v
  }
  store %x, %r, %i {steps=[4]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: f32[4]) {
  %2: i32 = bid {axis=0}
  %3: bool = constant {dtype=bool, value=1}
  %4: f32[4] = neg %1
  store %0, %4, %2 {steps=[4]}
  store %0, %4, %2 {steps=[4]}
}
)");
}

TEST(SimplifyControl, KnownBreakEndsTheBlock) {
  EXPECT_EQ(after("simplify_control", R"(kernel k(%x: array<f32,1>, %v: f32[4], %c: bool) {
  %i: i32 = bid {axis=0}
  %true: bool = constant {dtype=bool, value=1}
  %r: i32 = loop %i (%a: i32) {
    if %true () {
      store %x, %v, %a {steps=[4]}
      break %a
    } () {
      yield
    }
    store %x, %v, %i {steps=[4]}
    continue %a
  }
  store %x, %v, %r {steps=[4]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: f32[4], %2: bool) {
  %3: i32 = bid {axis=0}
  %4: bool = constant {dtype=bool, value=1}
  %5: i32 = loop %3 (%6: i32) {
    store %0, %1, %3 {steps=[4]}
    break %3
  }
  store %0, %1, %3 {steps=[4]}
}
)");
}

TEST(SimplifyControl, LoopsOfNoAndOneIteration) {
  EXPECT_EQ(after("simplify_control", R"(kernel k(%x: array<f32,1>, %v: f32[4], %n: i32) {
  %0: i32 = constant {dtype=i32, value=0}
  %4: i32 = constant {dtype=i32, value=4}
  %r: f32[4] = for %4, %0, %4, %v (%i: i32, %a: f32[4]) {
    %b: f32[4] = neg %a
    yield %b
  }
  %s: f32[4] = for %0, %4, %4, %r (%i: i32, %a: f32[4]) {
    store %x, %a, %i {steps=[4]}
    %b: f32[4] = neg %a
    yield %b
  }
  %t: f32[4] = for %n, %n, %4, %s (%i: i32, %a: f32[4]) {
    %b: f32[4] = neg %a
    yield %b
  }
  store %x, %t, %n {steps=[4]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: f32[4], %2: i32) {
  %3: i32 = constant {dtype=i32, value=0}
  %4: i32 = constant {dtype=i32, value=4}
  store %0, %1, %3 {steps=[4]}
  %5: f32[4] = neg %1
  store %0, %5, %2 {steps=[4]}
}
)");
}

TEST(SimplifyControl, ValuesCarriedUnchanged) {
  EXPECT_EQ(after("simplify_control", R"(kernel k(%x: array<f32,1>, %v: f32[4], %n: i32, %c: bool) {
  %0: i32 = constant {dtype=i32, value=0}
  %4: i32 = constant {dtype=i32, value=4}
  %r: f32[4], %s: i32 = for %0, %n, %4, %v, %0 (%i: i32, %a: f32[4], %b: i32) {
    store %x, %a, %i {steps=[4]}
    %e: i32 = add %b, %i
    yield %a, %e
  }
  %t: i32 = loop %s (%b: i32) {
    if %c () {
      break %b
    } () {
      yield
    }
    store %x, %v, %b {steps=[4]}
    continue %s
  }
  store %x, %r, %t {steps=[4]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: f32[4], %2: i32, %3: bool) {
  %4: i32 = constant {dtype=i32, value=0}
  %5: i32 = constant {dtype=i32, value=4}
  %6: f32[4], %7: i32 = for %4, %2, %5, %1, %4 (%8: i32, %9: f32[4], %10: i32) {
    store %0, %1, %8 {steps=[4]}
    %11: i32 = add %10, %8
    yield %1, %11
  }
  %12: i32 = loop %7 (%13: i32) {
    if %3 () {
      break %7
    } () {
      yield
    }
    store %0, %1, %7 {steps=[4]}
    continue %7
  }
  store %0, %1, %7 {steps=[4]}
}
)");
}

}  // namespace
}  // namespace tile
