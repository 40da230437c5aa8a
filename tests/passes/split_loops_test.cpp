// Tests loops whose masks have an effect in some iterations only.
#include "pass_text.h"

namespace tile {
namespace {

TEST(SplitLoops, MaskedTail) {
  EXPECT_EQ(after("split_loops", R"(kernel k(%x: array<f32,1>, %n: i32) {
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %8: i32 = constant {dtype=i32, value=8}
  %a: i32[8] = arange {dtype=i32, size=8}
  %t: i32 = cdiv %n, %8
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[8] = broadcast %z {shape=[8]}
  %r: f32[8] = for %0, %t, %1, %zs (%i: i32, %acc: f32[8]) {
    %s: i32 = mul %i, %8
    %b: i32[8] = broadcast %s {shape=[8]}
    %c: i32[8] = add %b, %a
    %m: i32[8] = broadcast %n {shape=[8]}
    %k: bool[8] = lt %c, %m
    %l: f32[8] = load %x, %i {pad=0.0, shape=[8], steps=[8]}
    %w: f32[8] = where %k, %l, %zs
    %u: f32[8] = add %acc, %w
    yield %u
  }
  store %x, %r, %0 {steps=[8]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: i32) {
  %2: i32 = constant {dtype=i32, value=0}
  %3: i32 = constant {dtype=i32, value=1}
  %4: i32 = constant {dtype=i32, value=8}
  %5: i32[8] = arange {dtype=i32, size=8}
  %6: i32 = cdiv %1, %4
  %7: f32 = constant {dtype=f32, value=0.0}
  %8: f32[8] = broadcast %7 {shape=[8]}
  %9: i32 = constant {dtype=i32, value=8}
  %10: i32 = floordiv %1, %9
  %11: i32 = minimum %10, %6
  %12: bool = constant {dtype=bool, value=1}
  %13: f32[8] = for %2, %11, %3, %8 {split=1} (%14: i32, %15: f32[8]) {
    %16: i32 = mul %14, %4
    %17: i32[8] = broadcast %16 {shape=[8]}
    %18: i32[8] = add %17, %5
    %19: i32[8] = broadcast %1 {shape=[8]}
    %20: bool[8] = broadcast %12 {shape=[8]}
    %21: f32[8] = load %0, %14 {pad=0.0, shape=[8], steps=[8]}
    %22: f32[8] = where %20, %21, %8
    %23: f32[8] = add %15, %22
    yield %23
  }
  %24: i32 = maximum %2, %11
  %25: f32[8] = for %24, %6, %3, %13 {edge=1, split=1} (%26: i32, %27: f32[8]) {
    %28: i32 = mul %26, %4
    %29: i32[8] = broadcast %28 {shape=[8]}
    %30: i32[8] = add %29, %5
    %31: i32[8] = broadcast %1 {shape=[8]}
    %32: bool[8] = lt %30, %31
    %33: f32[8] = load %0, %26 {pad=0.0, shape=[8], steps=[8]}
    %34: f32[8] = where %32, %33, %8
    %35: f32[8] = add %27, %34
    yield %35
  }
  store %0, %25, %2 {steps=[8]}
}
)");
}

TEST(SplitLoops, MaskedTailThroughThePipeline) {
  EXPECT_EQ(optimised(R"(kernel k(%x: array<f32,1>, %n: i32) {
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %8: i32 = constant {dtype=i32, value=8}
  %a: i32[8] = arange {dtype=i32, size=8}
  %t: i32 = cdiv %n, %8
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[8] = broadcast %z {shape=[8]}
  %r: f32[8] = for %0, %t, %1, %zs (%i: i32, %acc: f32[8]) {
    %s: i32 = mul %i, %8
    %b: i32[8] = broadcast %s {shape=[8]}
    %c: i32[8] = add %b, %a
    %m: i32[8] = broadcast %n {shape=[8]}
    %k: bool[8] = lt %c, %m
    %l: f32[8] = load %x, %i {pad=0.0, shape=[8], steps=[8]}
    %w: f32[8] = where %k, %l, %zs
    %u: f32[8] = add %acc, %w
    yield %u
  }
  store %x, %r, %0 {steps=[8]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: i32) {
  %2: i32 = constant {dtype=i32, value=0}
  %3: i32 = constant {dtype=i32, value=8}
  %4: i32 = floordiv %1, %3
  %5: i32 = cdiv %1, %3
  %6: i32 = minimum %4, %5
  %7: i32 = constant {dtype=i32, value=1}
  %8: f32 = constant {dtype=f32, value=0.0}
  %9: f32[8] = broadcast %8 {shape=[8]}
  %10: f32[8] = for %2, %6, %7, %9 {split=1} (%11: i32, %12: f32[8]) {
    %13: f32[8] = load %0, %11 {pad=0.0, shape=[8], steps=[8]}
    %14: f32[8] = add %12, %13
    yield %14
  }
  %15: i32 = maximum %6, %2
  %16: i32[8] = arange {dtype=i32, size=8}
  %17: f32[8] = for %15, %5, %7, %10 {edge=1, split=1} (%18: i32, %19: f32[8]) {
    %20: i32 = mul %18, %3
    %21: i32[8] = broadcast %20 {shape=[8]}
    %22: i32[8] = add %16, %21
    %23: i32[8] = broadcast %1 {shape=[8]}
    %24: bool[8] = lt %22, %23
    %25: f32[8] = load %0, %18 {pad=0.0, shape=[8], steps=[8]}
    %26: f32[8] = where %24, %25, %9
    %27: f32[8] = add %19, %26
    yield %27
  }
  store %0, %17, %2 {steps=[8]}
}
)");
}

// A sliding window: the mask begins and ends. The middle loop has none.
TEST(SplitLoops, BandBecomesThreeLoops) {
  EXPECT_EQ(optimised(R"(kernel k(%x: array<f32,1>, %lo: i32, %hi: i32, %n: i32) {
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %8: i32 = constant {dtype=i32, value=8}
  %a: i32[8] = arange {dtype=i32, size=8}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[8] = broadcast %z {shape=[8]}
  for %0, %n, %1 (%i: i32) {
    %s: i32 = mul %i, %8
    %b: i32[8] = broadcast %s {shape=[8]}
    %c: i32[8] = add %b, %a
    %l: i32[8] = broadcast %lo {shape=[8]}
    %h: i32[8] = broadcast %hi {shape=[8]}
    %p: bool[8] = ge %c, %l
    %q: bool[8] = lt %c, %h
    %k: bool[8] = bitwise_and %p, %q
    %v: f32[8] = load %x, %i {pad=0.0, shape=[8], steps=[8]}
    %w: f32[8] = where %k, %v, %zs
    store %x, %w, %i {steps=[8]}
    yield
  }
})"),
            R"(kernel k(%0: array<f32,1>, %1: i32, %2: i32, %3: i32) {
  %4: i32 = constant {dtype=i32, value=0}
  %5: i32 = constant {dtype=i32, value=8}
  %6: i32 = cdiv %1, %5
  %7: i32 = minimum %3, %6
  %8: i32 = constant {dtype=i32, value=1}
  %9: i32[8] = arange {dtype=i32, size=8}
  %10: f32 = constant {dtype=f32, value=0.0}
  %11: f32[8] = broadcast %10 {shape=[8]}
  for %4, %7, %8 {edge=1, split=1} (%12: i32) {
    %13: f32[8] = load %0, %12 {pad=0.0, shape=[8], steps=[8]}
    %14: i32 = mul %12, %5
    %15: i32[8] = broadcast %14 {shape=[8]}
    %16: i32[8] = add %9, %15
    %17: i32[8] = broadcast %1 {shape=[8]}
    %18: bool[8] = ge %16, %17
    %19: i32[8] = broadcast %2 {shape=[8]}
    %20: bool[8] = lt %16, %19
    %21: bool[8] = bitwise_and %18, %20
    %22: f32[8] = where %21, %13, %11
    store %0, %22, %12 {steps=[8]}
    yield
  }
  %23: i32 = maximum %7, %4
  %24: i32 = floordiv %2, %5
  %25: i32 = minimum %3, %24
  for %23, %25, %8 {split=1} (%26: i32) {
    %27: f32[8] = load %0, %26 {pad=0.0, shape=[8], steps=[8]}
    store %0, %27, %26 {steps=[8]}
    yield
  }
  %28: i32 = maximum %23, %25
  for %28, %3, %8 {edge=1, split=1} (%29: i32) {
    %30: f32[8] = load %0, %29 {pad=0.0, shape=[8], steps=[8]}
    %31: i32 = mul %29, %5
    %32: i32[8] = broadcast %31 {shape=[8]}
    %33: i32[8] = add %9, %32
    %34: i32[8] = broadcast %1 {shape=[8]}
    %35: bool[8] = ge %33, %34
    %36: i32[8] = broadcast %2 {shape=[8]}
    %37: bool[8] = lt %33, %36
    %38: bool[8] = bitwise_and %35, %37
    %39: f32[8] = where %38, %30, %11
    store %0, %39, %29 {steps=[8]}
    yield
  }
}
)");
}

// A scalar condition splits too; the second loop starts on a step of the first.
TEST(SplitLoops, StepsAndBranches) {
  EXPECT_EQ(after("split_loops", R"(kernel k(%x: array<f32,1>, %v: f32[4], %n: i32, %m: i32) {
  %2: i32 = constant {dtype=i32, value=2}
  %3: i32 = constant {dtype=i32, value=3}
  for %2, %n, %3 (%i: i32) {
    %k: bool = lt %i, %m
    if %k () {
      store %x, %v, %i {steps=[4]}
      yield
    } () {
      yield
    }
    yield
  }
})"),
            R"(kernel k(%0: array<f32,1>, %1: f32[4], %2: i32, %3: i32) {
  %4: i32 = constant {dtype=i32, value=2}
  %5: i32 = constant {dtype=i32, value=3}
  %6: i32 = constant {dtype=i32, value=1}
  %7: i32 = floordiv %3, %6
  %8: i32 = minimum %7, %2
  %9: bool = constant {dtype=bool, value=1}
  for %4, %8, %5 {split=1} (%10: i32) {
    %11: bool = broadcast %9 {shape=[]}
    if %9 () {
      store %0, %1, %10 {steps=[4]}
      yield
    } () {
      yield
    }
    yield
  }
  %12: i32 = maximum %4, %8
  %13: i32 = constant {dtype=i32, value=3}
  %14: i32 = sub %12, %4
  %15: i32 = cdiv %14, %13
  %16: i32 = mul %15, %13
  %17: i32 = add %4, %16
  for %17, %2, %5 {edge=1, split=1} (%18: i32) {
    %19: bool = lt %18, %3
    if %19 () {
      store %0, %1, %18 {steps=[4]}
      yield
    } () {
      yield
    }
    yield
  }
}
)");
}

// With split_tails, loads and stores that may cross an edge split the loop; with a constant row outside the
// array, all iterations belong to the edge loop.
TEST(SplitLoops, Tails) {
  EXPECT_EQ(optimised(R"(kernel k(%x: array<f32,2>, %y: array<f32,1>) {
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %8: i32 = constant {dtype=i32, value=8}
  %r: i32 = bid {axis=0}
  %n: i32 = dim %x {axis=1}
  %t: i32 = cdiv %n, %8
  for %0, %t, %1 (%i: i32) {
    %a: f32[4,8] = load %x, %r, %i {pad=0.0, shape=[4,8], steps=[4,8]}
    %b: f32[8] = reduce_sum %a {axes=[0]}
    store %y, %b, %i {steps=[8]}
    yield
  }
})",
                      {.split_tails = true}),
            R"(kernel k(%0: array<f32,2>, %1: array<f32,1>) {
  %2: i32 = constant {dtype=i32, value=0}
  %3: i32 = dim %0 {axis=0}
  %4: i32 = bid {axis=0}
  %5: i32 = constant {dtype=i32, value=4}
  %6: i32 = mul %4, %5
  %7: i32 = sub %3, %6
  %8: i32 = constant {dtype=i32, value=-4}
  %9: i32 = add %7, %8
  %10: bool = ge %9, %2
  %11: i32 = dim %0 {axis=1}
  %12: i32 = constant {dtype=i32, value=8}
  %13: i32 = floordiv %11, %12
  %14: i32 = dim %1 {axis=0}
  %15: i32 = floordiv %14, %12
  %16: i32 = minimum %13, %15
  %17: i32 = cdiv %11, %12
  %18: i32 = minimum %16, %17
  %19: i32 = where %10, %18, %2
  %20: i32 = constant {dtype=i32, value=1}
  for %2, %19, %20 {split=1} (%21: i32) {
    %22: f32[4,8] = load %0, %4, %21 {in_bounds=1, pad=0.0, shape=[4,8], steps=[4,8]}
    %23: f32[8] = reduce_sum %22 {axes=[0]}
    store %1, %23, %21 {in_bounds=1, steps=[8]}
    yield
  }
  for %19, %17, %20 {edge=1, split=1} (%24: i32) {
    %25: f32[4,8] = load %0, %4, %24 {pad=0.0, shape=[4,8], steps=[4,8]}
    %26: f32[8] = reduce_sum %25 {axes=[0]}
    store %1, %26, %24 {steps=[8]}
    yield
  }
}
)");
}

TEST(SplitLoops, MasksOfDataAndOuterLoopsStay) {
  EXPECT_EQ(after("split_loops", R"(kernel k(%x: array<i32,1>, %n: i32) {
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  for %0, %n, %1 (%i: i32) {
    %o: bool = lt %i, %1
    for %0, %n, %1 (%j: i32) {
      %a: i32[4] = load %x, %j {pad=0, shape=[4], steps=[4]}
      %b: i32[4] = broadcast %j {shape=[4]}
      %k: bool[4] = lt %a, %b
      %w: i32[4] = where %k, %a, %b
      store %x, %w, %j {steps=[4]}
      yield
    }
    yield
  }
})"),
            R"(kernel k(%0: array<i32,1>, %1: i32) {
  %2: i32 = constant {dtype=i32, value=0}
  %3: i32 = constant {dtype=i32, value=1}
  for %2, %1, %3 (%4: i32) {
    %5: bool = lt %4, %3
    for %2, %1, %3 (%6: i32) {
      %7: i32[4] = load %0, %6 {pad=0, shape=[4], steps=[4]}
      %8: i32[4] = broadcast %6 {shape=[4]}
      %9: bool[4] = lt %7, %8
      %10: i32[4] = where %9, %7, %8
      store %0, %10, %6 {steps=[4]}
      yield
    }
    yield
  }
}
)");
}

}  // namespace
}  // namespace tile
