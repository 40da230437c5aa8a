// Tests which ops leave a loop and which stay.
#include "pass_text.h"

namespace tile {
namespace {

// The constant and one broadcast only move together with the sub that needs them; the other broadcast stays.
TEST(Licm, PureOpsAndLoads) {
  EXPECT_EQ(after("licm", R"(kernel k(%x: array<f32,1>, %y: array<f32,1>, %n: i32, %v: f32) {
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  for %zero, %n, %one (%i: i32) {
    %a: f32[4] = load %x, %n {pad=0.0, shape=[4], steps=[4]}
    %c: f32 = constant {dtype=f32, value=2.0}
    %b: f32[4] = broadcast %c {shape=[4]}
    %s: f32[4] = sub %a, %b
    %d: f32[4] = broadcast %v {shape=[4]}
    %l: f32[4] = load %y, %i {pad=0.0, shape=[4], steps=[4]}
    %t: f32[4] = fma %s, %d, %l
    store %y, %t, %i {steps=[4]}
    yield
  }
})"),
            R"(kernel k(%0: array<f32,1>, %1: array<f32,1>, %2: i32, %3: f32) {
  %4: i32 = constant {dtype=i32, value=0}
  %5: i32 = constant {dtype=i32, value=1}
  %6: f32[4] = load %0, %2 {pad=0.0, shape=[4], steps=[4]}
  %7: f32 = constant {dtype=f32, value=2.0}
  %8: f32[4] = broadcast %7 {shape=[4]}
  %9: f32[4] = sub %6, %8
  for %4, %2, %5 (%10: i32) {
    %11: f32[4] = broadcast %3 {shape=[4]}
    %12: f32[4] = load %1, %10 {pad=0.0, shape=[4], steps=[4]}
    %13: f32[4] = fma %9, %11, %12
    store %1, %13, %10 {steps=[4]}
    yield
  }
}
)");
}

TEST(Licm, LoadsOfWrittenArraysStay) {
  EXPECT_EQ(after("licm", R"(kernel k(%x: array<f32,1>, %y: array<f32,1>, %n: i32) {
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  for %zero, %n, %one (%i: i32) {
    %a: f32[4] = load %x, %n {pad=0.0, shape=[4], steps=[4]}
    %b: f32[4] = exp %a
    store %x, %b, %i {steps=[4]}
    yield
  }
})"),
            R"(kernel k(%0: array<f32,1>, %1: array<f32,1>, %2: i32) {
  %3: i32 = constant {dtype=i32, value=0}
  %4: i32 = constant {dtype=i32, value=1}
  for %3, %2, %4 (%5: i32) {
    %6: f32[4] = load %0, %2 {pad=0.0, shape=[4], steps=[4]}
    %7: f32[4] = exp %6
    store %0, %7, %5 {steps=[4]}
    yield
  }
}
)");
}

TEST(Licm, NestsAndBranches) {
  EXPECT_EQ(after("licm", R"(kernel k(%x: array<f32,1>, %y: array<f32,1>, %n: i32, %c: bool) {
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  for %zero, %n, %one (%i: i32) {
    for %zero, %n, %one (%j: i32) {
      %a: f32[4] = load %x, %n {pad=0.0, shape=[4], steps=[4]}
      %b: i32 = mul %i, %n
      %s: f32[4] = if %c () {
        %e: f32[4] = exp %a
        yield %e
      } () {
        yield %a
      }
      store %y, %s, %b {steps=[4]}
      yield
    }
    yield
  }
})"),
            R"(kernel k(%0: array<f32,1>, %1: array<f32,1>, %2: i32, %3: bool) {
  %4: i32 = constant {dtype=i32, value=0}
  %5: i32 = constant {dtype=i32, value=1}
  %6: f32[4] = load %0, %2 {pad=0.0, shape=[4], steps=[4]}
  %7: f32[4] = if %3 () {
    %8: f32[4] = exp %6
    yield %8
  } () {
    yield %6
  }
  for %4, %2, %5 (%9: i32) {
    %10: i32 = mul %9, %2
    for %4, %2, %5 (%11: i32) {
      store %1, %7, %10 {steps=[4]}
      yield
    }
    yield
  }
}
)");
}

TEST(Licm, EndlessLoopsAndJumps) {
  EXPECT_EQ(after("licm", R"(kernel k(%y: array<f32,1>, %v: f32[4], %n: i32, %c: bool) {
  %r: i32 = loop %n (%a: i32) {
    %e: f32[4] = exp %v
    if %c () {
      break %n
    } () {
      yield
    }
    store %y, %e, %a {steps=[4]}
    continue %a
  }
})"),
            R"(kernel k(%0: array<f32,1>, %1: f32[4], %2: i32, %3: bool) {
  %4: f32[4] = exp %1
  %5: i32 = loop %2 (%6: i32) {
    if %3 () {
      break %2
    } () {
      yield
    }
    store %0, %4, %6 {steps=[4]}
    continue %6
  }
}
)");
}

TEST(Licm, CombineRegions) {
  EXPECT_EQ(after("licm", R"(kernel k(%x: array<f32,1>, %v: f32[4], %n: i32) {
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  for %zero, %n, %one (%i: i32) {
    %f: f32[4] = neg %v
    %r: f32 = reduce %f {axis=0, identity=0.0, reverse=0} (%a: f32, %b: f32) {
      %s: f32 = add %a, %b
      yield %s
    }
    %t: f32[4] = broadcast %r {shape=[4]}
    store %x, %t, %i {steps=[4]}
    yield
  }
})"),
            R"(kernel k(%0: array<f32,1>, %1: f32[4], %2: i32) {
  %3: i32 = constant {dtype=i32, value=0}
  %4: i32 = constant {dtype=i32, value=1}
  %5: f32[4] = neg %1
  %6: f32 = reduce %5 {axis=0, identity=0.0, reverse=0} (%7: f32, %8: f32) {
    %9: f32 = add %7, %8
    yield %9
  }
  for %3, %2, %4 (%10: i32) {
    %11: f32[4] = broadcast %6 {shape=[4]}
    store %0, %11, %10 {steps=[4]}
    yield
  }
}
)");
}

}  // namespace
}  // namespace tile
