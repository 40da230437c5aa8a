// Tests the order of ops: one text for equivalent kernels, with memory order preserved.
#include "pass_text.h"

namespace tile {
namespace {

// g++ traces the right operand first, clang the left one; the text is the same.
TEST(Canonicalise, OperandsFirstFromEffects) {
  EXPECT_EQ(after("canonicalise", R"(kernel k(%x: array<f32,1>, %y: array<f32,1>) {
  %i: i32 = bid {axis=0}
  %b: f32[8] = load %y, %i {pad=0.0, shape=[8], steps=[8]}
  %a: f32[8] = load %x, %i {pad=0.0, shape=[8], steps=[8]}
  %s: f32[8] = sub %a, %b
  store %y, %s, %i {steps=[8]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: array<f32,1>) {
  %2: i32 = bid {axis=0}
  %3: f32[8] = load %1, %2 {pad=0.0, shape=[8], steps=[8]}
  %4: f32[8] = load %0, %2 {pad=0.0, shape=[8], steps=[8]}
  %5: f32[8] = sub %4, %3
  store %1, %5, %2 {steps=[8]}
}
)");
}

// Both loads of %x are needed late; they stay before the store to %x, in the order in which they are needed.
TEST(Canonicalise, ReadsStayBeforeTheWriteTheyMustNotSee) {
  EXPECT_EQ(after("canonicalise", R"(kernel k(%x: array<f32,1>, %y: array<f32,1>) {
  %i: i32 = bid {axis=0}
  %z: f32 = constant {dtype=f32, value=0.0}
  %t: f32[8] = broadcast %z {shape=[8]}
  %one: i32 = constant {dtype=i32, value=1}
  %late: f32[8] = load %x, %one {pad=0.0, shape=[8], steps=[8]}
  %a: f32[8] = load %x, %i {pad=0.0, shape=[8], steps=[8]}
  store %x, %t, %i {steps=[8]}
  %after: f32[8] = load %x, %i {pad=0.0, shape=[8], steps=[8]}
  %s: f32[8] = sub %a, %late
  %u: f32[8] = sub %s, %after
  store %y, %u, %i {steps=[8]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: array<f32,1>) {
  %2: i32 = bid {axis=0}
  %3: f32[8] = load %0, %2 {pad=0.0, shape=[8], steps=[8]}
  %4: i32 = constant {dtype=i32, value=1}
  %5: f32[8] = load %0, %4 {pad=0.0, shape=[8], steps=[8]}
  %6: f32 = constant {dtype=f32, value=0.0}
  %7: f32[8] = broadcast %6 {shape=[8]}
  store %0, %7, %2 {steps=[8]}
  %8: f32[8] = sub %3, %5
  %9: f32[8] = load %0, %2 {pad=0.0, shape=[8], steps=[8]}
  %10: f32[8] = sub %8, %9
  store %1, %10, %2 {steps=[8]}
}
)");
}

TEST(Canonicalise, ViewsOfOneArrayAreThatArray) {
  EXPECT_EQ(after("canonicalise", R"(kernel k(%x: array<f32,2>, %y: array<f32,1>) {
  %i: i32 = bid {axis=0}
  %v: array<f32,1> = index %x, %i
  %a: f32[8] = load %v, %i {pad=0.0, shape=[8], steps=[8]}
  %w: array<f32,1> = index %x, %i
  store %w, %a, %i {steps=[8]}
  %b: f32[8] = load %v, %i {pad=0.0, shape=[8], steps=[8]}
  %s: f32[8] = sub %b, %a
  store %y, %s, %i {steps=[8]}
})"),
            R"(kernel k(%0: array<f32,2>, %1: array<f32,1>) {
  %2: i32 = bid {axis=0}
  %3: array<f32,1> = index %0, %2
  %4: f32[8] = load %3, %2 {pad=0.0, shape=[8], steps=[8]}
  %5: array<f32,1> = index %0, %2
  store %5, %4, %2 {steps=[8]}
  %6: f32[8] = load %3, %2 {pad=0.0, shape=[8], steps=[8]}
  %7: f32[8] = sub %6, %4
  store %1, %7, %2 {steps=[8]}
}
)");
}

TEST(Canonicalise, AtomicsAreBarriers) {
  EXPECT_EQ(after("canonicalise", R"(kernel k(%x: array<f32,1>, %y: array<f32,1>, %n: array<f32,1>) {
  %i: i32 = bid {axis=0}
  %a: f32[8] = load %x, %i {pad=0.0, shape=[8], steps=[8]}
  %at: i32[1] = arange {dtype=i32, size=1}
  %z: f32 = constant {dtype=f32, value=1.0}
  %t: f32[1] = broadcast %z {shape=[1]}
  %q: f32[1] = atomic_add %n, %t, %at
  store %y, %a, %i {steps=[8]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: array<f32,1>, %2: array<f32,1>) {
  %3: i32 = bid {axis=0}
  %4: f32[8] = load %0, %3 {pad=0.0, shape=[8], steps=[8]}
  %5: f32 = constant {dtype=f32, value=1.0}
  %6: f32[1] = broadcast %5 {shape=[1]}
  %7: i32[1] = arange {dtype=i32, size=1}
  %8: f32[1] = atomic_add %2, %6, %7
  store %1, %4, %3 {steps=[8]}
}
)");
}

TEST(Canonicalise, RegionsAndUnusedOps) {
  EXPECT_EQ(after("canonicalise", R"(kernel k(%x: array<f32,1>, %c: bool, %n: i32) {
  %unused: f32 = constant {dtype=f32, value=3.0}
  %one: i32 = constant {dtype=i32, value=1}
  %zero: i32 = constant {dtype=i32, value=0}
  %idle: i32 = for %zero, %n, %one, %one (%j: i32, %acc: i32) {
    yield %acc
  }
  for %zero, %n, %one (%i: i32) {
    %dead: i32 = add %i, %i
    %b: f32[8] = load %x, %i {pad=0.0, shape=[8], steps=[8]}
    if %c () {
      store %x, %b, %n {steps=[8]}
      yield
    } () {
      yield
    }
    yield
  }
})"),
            R"(kernel k(%0: array<f32,1>, %1: bool, %2: i32) {
  %3: i32 = constant {dtype=i32, value=0}
  %4: i32 = constant {dtype=i32, value=1}
  for %3, %2, %4 (%5: i32) {
    %6: f32[8] = load %0, %5 {pad=0.0, shape=[8], steps=[8]}
    if %1 () {
      store %0, %6, %2 {steps=[8]}
      yield
    } () {
      yield
    }
    yield
  }
}
)");
}

// Constants come second.
TEST(Canonicalise, OperandsOfCommutativeOps) {
  EXPECT_EQ(after("canonicalise", R"(kernel k(%x: array<i32,1>, %n: i32) {
  %one: i32 = constant {dtype=i32, value=1}
  %i: i32 = bid {axis=0}
  %a: i32 = add %one, %i
  %b: i32 = mul %a, %i
  %t: i32[8] = broadcast %b {shape=[8]}
  store %x, %t, %i {steps=[8]}
})"),
            R"(kernel k(%0: array<i32,1>, %1: i32) {
  %2: i32 = bid {axis=0}
  %3: i32 = constant {dtype=i32, value=1}
  %4: i32 = add %2, %3
  %5: i32 = mul %4, %2
  %6: i32[8] = broadcast %5 {shape=[8]}
  store %0, %6, %2 {steps=[8]}
}
)");
}

TEST(Canonicalise, JumpsKeepTheirPlace) {
  EXPECT_EQ(after("canonicalise", R"(kernel k(%x: array<i32,1>, %c: bool, %n: i32) {
  %r: i32 = loop %n (%a: i32) {
    %t: i32[1] = broadcast %a {shape=[1]}
    if %c () {
      break %a
    } () {
      yield
    }
    store %x, %t, %a {steps=[1]}
    continue %a
  }
})"),
            R"(kernel k(%0: array<i32,1>, %1: bool, %2: i32) {
  %3: i32 = loop %2 (%4: i32) {
    if %1 () {
      break %4
    } () {
      yield
    }
    %5: i32[1] = broadcast %4 {shape=[1]}
    store %0, %5, %4 {steps=[1]}
    continue %4
  }
}
)");
}

}  // namespace
}  // namespace tile
