// Tests the removal of unused ops, carried values and branch results.
#include "pass_text.h"

namespace tile {
namespace {

// %b only feeds itself; %c feeds a store; %d is used after the loop.
TEST(Dce, CarriedValuesAndResults) {
  EXPECT_EQ(after("dce", R"(kernel k(%x: array<i32,1>, %n: i32) {
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %2: i32 = mul %n, %n
  %rb: i32, %rc: i32, %rd: i32 = for %0, %n, %1, %2, %0, %1 (%i: i32, %b: i32, %c: i32, %d: i32) {
    %e: i32 = add %b, %i
    %f: i32 = sub %c, %i
    %g: i32 = mul %d, %i
    %t: i32[2] = broadcast %f {shape=[2]}
    store %x, %t, %i {steps=[2]}
    yield %e, %f, %g
  }
  %t: i32[2] = broadcast %rd {shape=[2]}
  store %x, %t, %rd {steps=[2]}
})"),
            R"(kernel k(%0: array<i32,1>, %1: i32) {
  %2: i32 = constant {dtype=i32, value=0}
  %3: i32 = constant {dtype=i32, value=1}
  %4: i32, %5: i32 = for %2, %1, %3, %2, %3 (%6: i32, %7: i32, %8: i32) {
    %9: i32 = sub %7, %6
    %10: i32 = mul %8, %6
    %11: i32[2] = broadcast %9 {shape=[2]}
    store %0, %11, %6 {steps=[2]}
    yield %9, %10
  }
  %12: i32[2] = broadcast %5 {shape=[2]}
  store %0, %12, %5 {steps=[2]}
}
)");
}

TEST(Dce, BranchResults) {
  EXPECT_EQ(after("dce", R"(kernel k(%x: array<i32,1>, %n: i32, %c: bool) {
  %a: i32, %b: i32 = if %c () {
    %d: i32 = neg %n
    %e: i32 = abs %n
    yield %d, %e
  } () {
    yield %n, %n
  }
  %u: i32 = if %c () {
    yield %a
  } () {
    yield %n
  }
  %t: i32[2] = broadcast %b {shape=[2]}
  store %x, %t, %n {steps=[2]}
})"),
            R"(kernel k(%0: array<i32,1>, %1: i32, %2: bool) {
  %3: i32 = if %2 () {
    %4: i32 = abs %1
    yield %4
  } () {
    yield %1
  }
  %5: i32[2] = broadcast %3 {shape=[2]}
  store %0, %5, %1 {steps=[2]}
}
)");
}

// The exit condition keeps %k alive; %m is removed, also from the jumps inside branches.
TEST(Dce, EndlessLoops) {
  EXPECT_EQ(after("dce", R"(kernel k(%x: array<i32,1>, %n: i32) {
  %1: i32 = constant {dtype=i32, value=1}
  %r: i32, %s: i32 = loop %n, %n (%k: i32, %m: i32) {
    %l: i32 = sub %k, %1
    %o: i32 = mul %m, %k
    %c: bool = lt %l, %1
    if %c () {
      break %l, %o
    } () {
      %d: bool = gt %l, %n
      if %d () {
        continue %l, %m
      } () {
        yield
      }
      yield
    }
    %t: i32[2] = broadcast %k {shape=[2]}
    store %x, %t, %n {steps=[2]}
    continue %l, %o
  }
})"),
            R"(kernel k(%0: array<i32,1>, %1: i32) {
  %2: i32 = constant {dtype=i32, value=1}
  %3: i32 = loop %1 (%4: i32) {
    %5: i32 = sub %4, %2
    %6: bool = lt %5, %2
    if %6 () {
      break %5
    } () {
      %7: bool = gt %5, %1
      if %7 () {
        continue %5
      } () {
        yield
      }
      yield
    }
    %8: i32[2] = broadcast %4 {shape=[2]}
    store %0, %8, %1 {steps=[2]}
    continue %5
  }
}
)");
}

TEST(Dce, CombineRegionsLiveWithTheirOp) {
  EXPECT_EQ(after("dce", R"(kernel k(%x: array<f32,1>, %v: f32[4], %n: i32) {
  %r: f32 = reduce %v {axis=0, identity=0.0, reverse=0} (%a: f32, %b: f32) {
    %s: f32 = add %a, %b
    %u: f32 = mul %a, %b
    yield %s
  }
  %q: f32 = reduce %v {axis=0, identity=1.0, reverse=0} (%a: f32, %b: f32) {
    %u: f32 = mul %a, %b
    yield %u
  }
  %t: f32[4] = broadcast %r {shape=[4]}
  store %x, %t, %n {steps=[4]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: f32[4], %2: i32) {
  %3: f32 = reduce %1 {axis=0, identity=0.0, reverse=0} (%4: f32, %5: f32) {
    %6: f32 = add %4, %5
    yield %6
  }
  %7: f32[4] = broadcast %3 {shape=[4]}
  store %0, %7, %2 {steps=[4]}
}
)");
}

}  // namespace
}  // namespace tile
