// Tests comparisons and accesses that value ranges and key facts decide.
#include "pass_text.h"

namespace tile {
namespace {

TEST(Masks, RangesDecideComparisons) {
  EXPECT_EQ(after("simplify_masks", R"(kernel k(%i: i32, %u: u8) {
  %0: i32[8] = arange {dtype=i32, size=8}
  %1: i32 = constant {dtype=i32, value=8}
  %2: i32[8] = broadcast %1 {shape=[8]}
  %3: bool[8] = lt %0, %2
  %4: bool[8] = ge %0, %2
  %5: bool[8] = eq %0, %2
  %6: bool[8] = ne %0, %2
  %7: i32[8] = broadcast %i {shape=[8]}
  %8: i32[8] = add %7, %0
  %9: bool[8] = ge %8, %7
  %10: bool[8] = gt %8, %7
  %11: u8 = constant {dtype=u8, value=255}
  %12: bool = le %u, %11
  %13: i32 = mod %i, %1
  %14: bool = lt %13, %1
})"),
            R"(kernel k(%0: i32, %1: u8) {
  %2: i32[8] = arange {dtype=i32, size=8}
  %3: i32 = constant {dtype=i32, value=8}
  %4: i32[8] = broadcast %3 {shape=[8]}
  %5: bool = constant {dtype=bool, value=1}
  %6: bool[8] = broadcast %5 {shape=[8]}
  %7: bool = constant {dtype=bool, value=0}
  %8: bool[8] = broadcast %7 {shape=[8]}
  %9: bool = constant {dtype=bool, value=0}
  %10: bool[8] = broadcast %9 {shape=[8]}
  %11: bool = constant {dtype=bool, value=1}
  %12: bool[8] = broadcast %11 {shape=[8]}
  %13: i32[8] = broadcast %0 {shape=[8]}
  %14: i32[8] = add %13, %2
  %15: bool = constant {dtype=bool, value=1}
  %16: bool[8] = broadcast %15 {shape=[8]}
  %17: bool[8] = gt %14, %13
  %18: u8 = constant {dtype=u8, value=255}
  %19: bool = constant {dtype=bool, value=1}
  %20: i32 = mod %0, %3
  %21: bool = constant {dtype=bool, value=1}
}
)");
}

// index * 8 + 7 < n holds for all iterations of cdiv(n, 8) only if 8 divides n, which the key says about %1.
TEST(Masks, LoopBounds) {
  EXPECT_EQ(after("simplify_masks", R"(kernel k(%x: array<f32,1>, %y: array<f32,1>) {dim.1.0.divisor=16} {
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %8: i32 = constant {dtype=i32, value=8}
  %a: i32[8] = arange {dtype=i32, size=8}
  %n: i32 = dim %x {axis=0}
  %t: i32 = cdiv %n, %8
  for %0, %t, %1 (%i: i32) {
    %s: i32 = mul %i, %8
    %b: i32[8] = broadcast %s {shape=[8]}
    %c: i32[8] = add %b, %a
    %m: i32[8] = broadcast %n {shape=[8]}
    %k: bool[8] = lt %c, %m
    %l: f32[8] = load %x, %i {pad=0.0, shape=[8], steps=[8]}
    yield
  }
  %p: i32 = dim %y {axis=0}
  %q: i32 = cdiv %p, %8
  for %0, %q, %1 (%i: i32) {
    %s: i32 = mul %i, %8
    %b: i32[8] = broadcast %s {shape=[8]}
    %c: i32[8] = add %b, %a
    %m: i32[8] = broadcast %p {shape=[8]}
    %k: bool[8] = lt %c, %m
    %l: f32[8] = load %y, %i {pad=0.0, shape=[8], steps=[8]}
    %w: f32[16] = load %y, %i {pad=0.0, shape=[16], steps=[8]}
    yield
  }
})"),
            R"(kernel k(%0: array<f32,1>, %1: array<f32,1>) {dim.1.0.divisor=16} {
  %2: i32 = constant {dtype=i32, value=0}
  %3: i32 = constant {dtype=i32, value=1}
  %4: i32 = constant {dtype=i32, value=8}
  %5: i32[8] = arange {dtype=i32, size=8}
  %6: i32 = dim %0 {axis=0}
  %7: i32 = cdiv %6, %4
  for %2, %7, %3 (%8: i32) {
    %9: i32 = mul %8, %4
    %10: i32[8] = broadcast %9 {shape=[8]}
    %11: i32[8] = add %10, %5
    %12: i32[8] = broadcast %6 {shape=[8]}
    %13: bool[8] = lt %11, %12
    %14: f32[8] = load %0, %8 {pad=0.0, shape=[8], steps=[8]}
    yield
  }
  %15: i32 = dim %1 {axis=0}
  %16: i32 = floordiv %15, %4
  for %2, %16, %3 (%17: i32) {
    %18: i32 = mul %17, %4
    %19: i32[8] = broadcast %18 {shape=[8]}
    %20: i32[8] = add %19, %5
    %21: i32[8] = broadcast %15 {shape=[8]}
    %22: bool = constant {dtype=bool, value=1}
    %23: bool[8] = broadcast %22 {shape=[8]}
    %24: f32[8] = load %1, %17 {in_bounds=1, pad=0.0, shape=[8], steps=[8]}
    %25: f32[16] = load %1, %17 {pad=0.0, shape=[16], steps=[8]}
    yield
  }
}
)");
}

// The grid covers %0 in tiles of 8 x 16, whose second extent is a multiple of 16.
TEST(Masks, GridFacts) {
  EXPECT_EQ(
      after(
          "simplify_masks",
          R"(kernel k(%x: array<f32,2>) {bid.0.tiles=[0,0,8], bid.1.tiles=[0,1,16], dim.0.0.divisor=8, dim.0.1.divisor=16} {
  %i: i32 = bid {axis=0}
  %j: i32 = bid {axis=1}
  %a: f32[8,16] = load %x, %i, %j {pad=0.0, shape=[8,16], steps=[8,16]}
  %b: f32[8,16] = load %x, %j, %i {pad=0.0, shape=[8,16], steps=[8,16]}
  store %x, %a, %i, %j {steps=[8,16]}
})"),
      R"(kernel k(%0: array<f32,2>) {bid.0.tiles=[0,0,8], bid.1.tiles=[0,1,16], dim.0.0.divisor=8, dim.0.1.divisor=16} {
  %1: i32 = bid {axis=0}
  %2: i32 = bid {axis=1}
  %3: f32[8,16] = load %0, %1, %2 {in_bounds=1, pad=0.0, shape=[8,16], steps=[8,16]}
  %4: f32[8,16] = load %0, %2, %1 {pad=0.0, shape=[8,16], steps=[8,16]}
  store %0, %3, %1, %2 {in_bounds=1, steps=[8,16]}
}
)");
}

TEST(Masks, ViewsNeedTheirIndexInside) {
  EXPECT_EQ(after("simplify_masks",
                  R"(kernel k(%x: array<f32,2>) {bid.0.tiles=[0,0,1], dim.0.1.divisor=4, dim.0.1.low=4} {
  %0: i32 = constant {dtype=i32, value=0}
  %i: i32 = bid {axis=0}
  %j: i32 = bid {axis=1}
  %v: array<f32,1> = index %x, %i
  %a: f32[4] = load %v, %0 {pad=0.0, shape=[4], steps=[4]}
  %w: array<f32,1> = index %x, %j
  %b: f32[4] = load %w, %0 {pad=0.0, shape=[4], steps=[4]}
  %p: array<f32,2> = permute_array %x {axes=[1,0]}
  %c: f32[4,1] = load %p, %0, %i {pad=0.0, shape=[4,1], steps=[4,1]}
  %s: array<f32,1> = slice %v, %0, %i {axis=0}
  %d: f32[4] = load %s, %0 {pad=0.0, shape=[4], steps=[4]}
})"),
            R"(kernel k(%0: array<f32,2>) {bid.0.tiles=[0,0,1], dim.0.1.divisor=4, dim.0.1.low=4} {
  %1: i32 = constant {dtype=i32, value=0}
  %2: i32 = bid {axis=0}
  %3: i32 = bid {axis=1}
  %4: array<f32,1> = index %0, %2
  %5: f32[4] = load %4, %1 {in_bounds=1, pad=0.0, shape=[4], steps=[4]}
  %6: array<f32,1> = index %0, %3
  %7: f32[4] = load %6, %1 {pad=0.0, shape=[4], steps=[4]}
  %8: array<f32,2> = permute_array %0 {axes=[1,0]}
  %9: f32[4,1] = load %8, %1, %2 {in_bounds=1, pad=0.0, shape=[4,1], steps=[4,1]}
  %10: array<f32,1> = slice %4, %1, %2 {axis=0, starts_inside=1}
  %11: f32[4] = load %10, %1 {pad=0.0, shape=[4], steps=[4]}
}
)");
}

TEST(Masks, SlicesThatCannotBeginBeforeTheirArray) {
  EXPECT_EQ(after("simplify_masks", R"(kernel k(%x: array<f32,1>, %n: i32, %w: i64) {
  %0: i32 = constant {dtype=i32, value=0}
  %w0: i64 = constant {dtype=i64, value=0}
  %b: i32 = bid {axis=0}
  %a: array<f32,1> = slice %x, %n, %b {axis=0}
  %m: i32 = maximum %n, %0
  %c: array<f32,1> = slice %x, %m, %n {axis=0}
  %v: i64 = maximum %w, %w0
  %d: array<f32,1> = slice %x, %v, %w {axis=0}
  %e: array<f32,1> = slice %x, %b, %n {axis=0}
})"),
            R"(kernel k(%0: array<f32,1>, %1: i32, %2: i64) {
  %3: i32 = constant {dtype=i32, value=0}
  %4: i64 = constant {dtype=i64, value=0}
  %5: i32 = bid {axis=0}
  %6: array<f32,1> = slice %0, %1, %5 {axis=0}
  %7: i32 = maximum %1, %3
  %8: array<f32,1> = slice %0, %7, %1 {axis=0, starts_inside=1}
  %9: i64 = maximum %2, %4
  %10: array<f32,1> = slice %0, %9, %2 {axis=0, starts_inside=1}
  %11: array<f32,1> = slice %0, %5, %1 {axis=0, starts_inside=1}
}
)");
}

TEST(Masks, DivisionsWithoutRest) {
  EXPECT_EQ(after("simplify_masks", R"(kernel k(%n: i32, %m: i32) {arg.0.divisor=32, arg.1.low=0} {
  %8: i32 = constant {dtype=i32, value=8}
  %0: i32 = cdiv %n, %8
  %1: i32 = mod %n, %8
  %2: i32 = cdiv %m, %8
  %3: i32 = constant {dtype=i32, value=0}
  %4: i32 = maximum %m, %3
  %5: i32 = minimum %n, %3
})"),
            R"(kernel k(%0: i32, %1: i32) {arg.0.divisor=32, arg.1.low=0} {
  %2: i32 = constant {dtype=i32, value=8}
  %3: i32 = floordiv %0, %2
  %4: i32 = constant {dtype=i32, value=0}
  %5: i32 = cdiv %1, %2
  %6: i32 = constant {dtype=i32, value=0}
  %7: i32 = minimum %0, %6
}
)");
}

}  // namespace
}  // namespace tile
