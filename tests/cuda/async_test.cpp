// Tests the passes of asynchronous kernels: which kernels they take, and their text before and after.
#include <gtest/gtest.h>

#include "cuda/async/copied_tile.h"
#include "cuda/async/persist.h"
#include "cuda/async/plan.h"
#include "cuda/async/roles.h"
#include "cuda/async/skew.h"
#include "cuda/async_cases.h"
#include "cuda/program.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "support/text.h"

namespace tile::cuda {
namespace {

// A product of two matrices, whose rows are aligned. `left` and `right` load the operands of tile k.
struct Text {
  int m = 128, n = 256, k = 64;
  std::string left = "%x: bf16[128,64] = load %a, %i, %k {pad=0.0, shape=[128,64], steps=[128,64]}",
              right = "%y: bf16[64,256] = load %b, %k, %j {pad=0.0, shape=[64,256], steps=[64,256]}",
              product = "%m: f32[128,256] = mma %x, %y, %acc", start;
};
std::string text_of(const Text& of) {
  const std::string sums = str("f32[", of.m, ",", of.n, "]"), shape = str("[", of.m, ",", of.n, "]");
  return str(R"(kernel k(%a: array<bf16,2>, %b: array<bf16,2>, %c: array<bf16,2>) {
  %i: i32 = bid {axis=0}
  %j: i32 = bid {axis=1}
  %n: i32 = dim %a {axis=1}
  %bk: i32 = constant {dtype=i32, value=)",
             of.k, R"(}
  %t: i32 = cdiv %n, %bk
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %z: f32 = constant {dtype=f32, value=0.0}
  )",
             of.start.empty() ? str("%zs: ", sums, " = broadcast %z {shape=", shape, "}") : of.start, R"(
  %r: )",
             sums, " = for %0, %t, %1, %zs (%k: i32, %acc: ", sums, R"() {
    )",
             of.left, "\n    ", of.right, "\n    ", of.product, R"(
    yield %m
  }
  %o: bf16)",
             shape, R"( = astype %r {dtype=bf16}
  store %c, %o, %i, %j {steps=)",
             shape, R"(}
}
)");
}
Function kernel(const Text& of) {
  Function function = parse(text_of(of));
  make_dense(function, 3);
  return function;
}

std::string why_not(const Function& function, const Target& target = hopper) {
  return Program(function, target).why;
}
std::string why_not(const Text& of) { return why_not(kernel(of)); }

TEST(AsyncPlan, SaysWhyAProductIsNotOnWgmma) {
  EXPECT_EQ(why_not({}), "");
  Target other = hopper;
  other.arch = 100;
  EXPECT_EQ(why_not(kernel({}), other), "sm_100 has no wgmma");
  other = hopper;
  other.shared_bytes = 96 * 1024;
  EXPECT_EQ(why_not(kernel({}), other),
            "two stages of 49152 bytes do not fit the 98304 bytes of shared memory");
  EXPECT_EQ(why_not({.left = "%x: bf16[128,64] = load %a, %i, %k {pad=1.0, shape=[128,64], steps=[128,64]}"}),
            "the tile is padded with another number than 0");
  EXPECT_EQ(why_not({.m = 96,
                     .left = "%x: bf16[96,64] = load %a, %i, %k {pad=0.0, shape=[96,64], steps=[96,64]}",
                     .product = "%m: f32[96,256] = mma %x, %y, %acc"}),
            "the tile of 96x256x64 is no multiple of 64x8x16, or has more than 256 columns");
  EXPECT_EQ(
      why_not({.product = "store %c, %x, %i, %k {steps=[128,64]}\n%m: f32[128,256] = mma %x, %y, %acc"}),
      "other ops than products use the tile of an operand");
  EXPECT_EQ(
      why_not({.m = 64,
               .left = "%x: bf16[64,64] = load %a, %i, %k {pad=0.0, shape=[64,64], steps=[64,64]}",
               .product = "%h: f32[64,256] = mul %acc, %acc\n%m: f32[64,256] = mma %x, %y, %h"}),
      "the loop computes more than products, and nothing runs while the one group of 64 rows awaits them");
  Function unaligned = kernel({});
  unaligned.attributes().erase("array.1.aligned");
  EXPECT_EQ(why_not(unaligned),
            "the right operand's array is not contiguous along an axis, not aligned to 16 bytes, too large, "
            "empty, or has strides of 0 or less");
}

// A slice of rows ends in the kernel. The copy unit takes it with the two dimensions that are left.
TEST(AsyncPlan, SaysWhyASliceIsNotForTheCopyUnit) {
  const auto sliced = [](const std::string& views, const std::string& steps = "[128,64]") {
    return why_not({.left = views + "\n%x: bf16[128,64] = load %s, %i, %k {pad=0.0, shape=[128,64], steps=" +
                            steps + "}"});
  };
  const std::string rows = "%s: array<bf16,2> = slice %a, %j, %t {axis=0, starts_inside=1}";
  EXPECT_EQ(sliced(rows), "");
  EXPECT_EQ(sliced("%s: array<bf16,2> = slice %a, %j, %t {axis=0}"),
            "the left operand is a slice that may begin before its array; let it begin at max(start, 0)");
  EXPECT_EQ(sliced(rows, "[64,64]"), "the left operand is a slice whose tiles overlap");
  EXPECT_EQ(sliced("%u: array<bf16,2> = slice %a, %j, %t {axis=0, starts_inside=1}\n"
                   "%s: array<bf16,2> = slice %u, %j, %t {axis=0, starts_inside=1}"),
            "the left operand is a slice of a slice");
  EXPECT_EQ(sliced("%s: array<bf16,2> = slice %a, %j, %t {axis=1, starts_inside=1}"),
            "the left operand's array is not contiguous along an axis, not aligned to 16 bytes, too large, "
            "empty, or has strides of 0 or less");
  Function of_four =
      parse(with(with(text_of({.left = "%p: array<bf16,3> = index %a, %i\n"
                                       "%u: array<bf16,3> = slice %p, %j, %t {axis=1, starts_inside=1}\n"
                                       "%s: array<bf16,2> = index %u, %j\n"
                                       "%x: bf16[128,64] = load %s, %i, %k "
                                       "{pad=0.0, shape=[128,64], steps=[128,64]}"}),
                      "%a: array<bf16,2>", "%a: array<bf16,4>"),
                 "%n: i32 = dim %a {axis=1}", "%n: i32 = dim %b {axis=1}"));
  make_dense(of_four, 3);
  of_four.attributes().set("array.0.unit", int64_t{3});
  EXPECT_EQ(why_not(of_four), "the array has 4 axes, of which one is sliced; the copy unit takes 3");
}

// The copies of a slice take the array's own indices, with its start and stop. A condition without which a
// block has no work is decided before there are roles.
TEST(Roles, CopiesEndWhereASliceDoes) {
  Function function = parse(with(
      with(with(text_of(
                    {.n = 128,
                     .left = "%s: array<bf16,2> = slice %a, %j, %t {axis=0, starts_inside=1}\n"
                             "%x: bf16[128,64] = load %s, %i, %k {pad=0.0, shape=[128,64], steps=[128,64]}",
                     .right = "%y: bf16[64,128] = load %b, %k, %j {pad=0.0, shape=[64,128], steps=[64,128]}",
                     .product = "%m: f32[128,128] = mma %x, %y, %acc"}),
                "  %0: i32 = constant", "  %l: bool = lt %i, %n\n  leave_unless %l\n  %0: i32 = constant"),
           "  store %c,", "  %d: array<bf16,2> = slice %c, %i, %n {axis=0, starts_inside=1}\n  store %d,"),
      "[128,256]", "[128,128]"));
  make_dense(function, 3);
  const KernelArrays arrays(function);
  const AsyncPlan plan(function, arrays, hopper, false);
  const std::string text = divided_among_roles(function, plan);
  const size_t roles = text.find("  roles");
  EXPECT_LT(text.find("  leave_unless %"), roles);
  EXPECT_NE(text.find("ring_load %0, %3, %13, %4, %7 {ring=0, sliced=0, steps=[128,64], tile=0}", roles),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(" {sliced=0, steps=[128,128], tile=0}", roles), std::string::npos) << text;
  EXPECT_EQ(print(parse(text), false), text);
}

// Maps are made after the ops that compute the indices of views have been removed.
TEST(CopiedTile, KnowsWithoutTheIndicesWhichAxesItLeavesOut) {
  const Function function = parse(R"(kernel k(%a: array<bf16,3>, %j: i32, %t: i32) {
  %0: i32 = constant {dtype=i32, value=0}
  %u: array<bf16,2> = index %a, %0
  %s: array<bf16,2> = slice %u, %j, %t {axis=0, starts_inside=1}
  %x: bf16[128,64] = load %s, %j, %0 {pad=0.0, shape=[128,64], steps=[128,64]}
}
)");
  CopiedTile tile;
  ASSERT_TRUE(tile.follow(function, *function.body().ops.back())) << tile.why_not;
  tile.layout.rows = 128, tile.layout.panel = 64;
  tile.fixed.assign(tile.fixed.size(), nullptr);
  EXPECT_EQ(tile.map(2).box, (std::vector{0, 128, 64}));
  EXPECT_EQ(tile.dimensions(), TensorMapSpec::slice_dimensions + 2);
}

// Products whose loop computes more, or whose sum does not begin at zero, are awaited in their block.
TEST(AsyncPlan, TakesLoopsThatComputeMore) {
  EXPECT_EQ(why_not({.product = "%h: f32[128,256] = mul %acc, %acc\n%m: f32[128,256] = mma %x, %y, %h"}), "");
  EXPECT_EQ(why_not({.start = "%h: f32 = constant {dtype=f32, value=1.0}\n%zs: f32[128,256] = broadcast %h "
                              "{shape=[128,256]}"}),
            "");
}

// Loads of other tiles would not run ahead, and are left to loops that are not the usual case.
TEST(AsyncPlan, WaitsForOtherTilesWhereAnotherLoopDoesNot) {
  const std::string product =
      "%h: bf16[128,256] = load %c, %i, %j {pad=0.0, shape=[128,256], steps=[128,256]}\n"
      "%g: f32[128,256] = astype %h {dtype=f32}\n%s: f32[128,256] = mul %acc, %g\n"
      "%m: f32[128,256] = mma %x, %y, %s";
  EXPECT_EQ(why_not({.product = product}), "the loop of a product loads a tile that is no operand");
  const std::string usual = R"(%z2: f32[128,256] = broadcast %z {shape=[128,256]}
  %zs: f32[128,256] = for %0, %t, %1, %z2 (%k2: i32, %acc2: f32[128,256]) {
    %x2: bf16[128,64] = load %a, %i, %k2 {pad=0.0, shape=[128,64], steps=[128,64]}
    %y2: bf16[64,256] = load %b, %k2, %j {pad=0.0, shape=[64,256], steps=[64,256]}
    %m2: f32[128,256] = mma %x2, %y2, %acc2
    yield %m2
  })";
  EXPECT_EQ(why_not({.product = product, .start = usual}), "");
}

TEST(AsyncPlan, SaysWhyAnOperandIsNotForGroups) {
  const std::string one = "%one: bf16 = constant {dtype=bf16, value=1.0}\n",
                    product = "%m: f32[128,256] = mma %x, %y, %acc\n";
  const auto computed = [&](const std::string& name, const std::string& shape) {
    return one + "%" + name + ": bf16" + shape + " = broadcast %one {shape=" + shape + "}\n";
  };
  EXPECT_EQ(why_not({.product = computed("w", "[64,256]") + "%m: f32[128,256] = mma %x, %w, %acc"}),
            "the right operand is not loaded");
  EXPECT_EQ(why_not({.product = computed("w", "[64,128]") + "%wt: bf16[128,64] = permute %w {axes=[1,0]}\n"
                                                            "%m: f32[128,256] = mma %wt, %y, %acc"}),
            "the left operand is computed as bf16[64,128] and then transposed");
  EXPECT_EQ(why_not({.product = product + computed("w", "[64,64]") +
                                "%z2: f32[64,256] = broadcast %z {shape=[64,256]}\n"
                                "%m2: f32[64,256] = mma %w, %y, %z2"}),
            "the left operand is computed as bf16[64,64], so that no group has all of it");
  // Each of two groups takes 32 columns at least.
  EXPECT_EQ(
      why_not({.product = product + computed("w", "[64,64]") +
                          "%y2: bf16[64,32] = load %b, %k, %j {pad=0.0, shape=[64,32], steps=[64,32]}\n"
                          "%z2: f32[64,32] = broadcast %z {shape=[64,32]}\n"
                          "%m2: f32[64,32] = mma %w, %y2, %z2"}),
      "the product has 64x32 sums; those of 2 groups have 128 rows, or 64 and a multiple of 64 columns");
  EXPECT_EQ(why_not({.product = product + computed("w", "[128,64]") +
                                "%wt: bf16[64,128] = permute %w {axes=[1,0]}\n"
                                "%y2: bf16[128,64] = load %b, %k, %j {pad=0.0, shape=[128,64], "
                                "steps=[128,64]}\n%z2: f32[64,64] = broadcast %z {shape=[64,64]}\n"
                                "%m2: f32[64,64] = mma %wt, %y2, %z2"}),
            "");
}

// In a loop, the copy unit could still read a panel that the next iteration replaces.
TEST(AsyncPlan, StoresOfLoopsAreNotLeftToTheCopyUnit) {
  const Function function = kernel({});
  const auto stores = [](const Function& of, bool persistent) {
    return AsyncPlan(of, KernelArrays(of), hopper, persistent).stores.size();
  };
  EXPECT_EQ(stores(function, false), 1);
  Function in_loop = kernel({});
  make_persistent(in_loop);
  EXPECT_EQ(stores(in_loop, true), 1);
  EXPECT_EQ(stores(in_loop, false), 0);
}

// The kernel's text after the division, without its first lines.
TEST(Roles, DivideAProduct) {
  Function function = kernel({});
  const KernelArrays arrays(function);
  const AsyncPlan plan(function, arrays, hopper, true);
  const std::string text = divided_among_roles(function, plan);
  EXPECT_EQ(text.substr(text.find("  roles")), R"(  roles () {
    for %8, %7, %9 (%11: i32) {
      ring_fill {ring=0}
      ring_load %0, %3, %11 {ring=0, steps=[128,64], tile=0}
      ring_load %1, %11, %4 {ring=0, steps=[64,256], tile=1}
      ring_next {ring=0}
      yield
    }
    yield
  } () {
    yield
  } () {
    %12: f32[128,256] = undefined {dtype=f32, shape=[128,256]}
    %13: f32[128,256] = for %8, %7, %9, %12 (%14: i32, %15: f32[128,256]) {
      ring_wait {ring=0}
      %16: bool = ne %14, %8
      %17: bf16[128,64] = ring_tile {dtype=bf16, ring=0, shape=[128,64], tile=0}
      %18: bf16[64,256] = ring_tile {dtype=bf16, ring=0, shape=[64,256], tile=1}
      %19: f32[128,256] = mma_issue %17, %18, %15, %16 {left_transposed=0, right_transposed=0}
      mma_retire {pending=1}
      ring_free {ring=0}
      ring_next {ring=0}
      yield %19
    }
    %20: f32[128,256] = mma_await %13 {pending=0}
    ring_drain {ring=0}
    %21: bool = lt %8, %7
    %22: f32[128,256] = zero_unless %21, %20
    %23: bf16[128,256] = astype %22 {dtype=bf16}
    store_async %2, %23, %3, %4 {steps=[128,256], tile=0}
    store_wait
    yield
  }
}
)");
  EXPECT_EQ(print(parse(text), false), text);
}

// A block that stores two tiles side by side. The copy unit may still read the first when the second is
// stored, but not one that the second replaces.
TEST(AsyncPlan, TilesOfOneArrayAreStoredTogetherIfTheyAreApart) {
  const auto stores = [](const std::string& second) {
    const std::string store = "store %c, %o, %i, %j {steps=[128,256]}\n";
    Function function = parse(with(text_of({}), store,
                                   "%two: i32 = constant {dtype=i32, value=2}\n  %left: i32 = mul %j, %two\n"
                                   "  %right: i32 = add %left, %1\n  store %c, %o, %i, %left "
                                   "{steps=[128,256]}\n  store %c, %o, " +
                                       second + " {steps=[128,256]}\n"));
    make_dense(function, 3);
    return AsyncPlan(function, KernelArrays(function), hopper, false).stores.size();
  };
  EXPECT_EQ(stores("%i, %right"), 2);
  EXPECT_EQ(stores("%i, %left"), 0);
  EXPECT_EQ(stores("%i, %two"), 0);
}

// The region of the groups: products of an iteration are in flight at once, and rings are freed as soon as
// their products have ended.
TEST(Issue, AwaitsProductsWhereTheyAreUsed) {
  Function function = parse(two_loops("bf16"));
  make_dense(function, 4);
  skew_loops(function);
  const KernelArrays arrays(function);
  const AsyncPlan plan(function, arrays, hopper, false);
  ASSERT_EQ(plan.why_not, "");
  EXPECT_TRUE(plan.awaits);
  ASSERT_EQ(plan.rings.size(), 3U);  // queries, keys and values: parts of a loop share them
  EXPECT_EQ(plan.rings[1].uses.size(), 3U);
  const std::string text = divided_among_roles(function, plan);
  size_t at = text.find("} () {");
  std::string order;
  const std::string words[] = {
      "for ",      "ring_wait {ring=0}",    "ring_wait {ring=1}",    "ring_wait {ring=2}",    "mma_issue",
      "mma_await", "ring_release {ring=0}", "ring_release {ring=1}", "ring_release {ring=2}", "abs "};
  for (; at < text.size(); ++at)
    for (const std::string& word : words)
      if (text.compare(at, word.size(), word) == 0) order += (order.empty() ? "" : ", ") + word;
  const std::string front = "ring_wait {ring=1}, mma_issue, ", sum = "ring_wait {ring=2}, mma_issue, ",
                    rest = "mma_await, ring_release {ring=1}, abs ",
                    end = ", mma_await, ring_release {ring=2}";
  EXPECT_EQ(order, "ring_wait {ring=0}, for , " + front + rest + ", for , " + front + sum + rest + end +
                       ", for , " + front + sum + rest + end + ", ring_release {ring=0}, for , " + sum +
                       "mma_await, ring_release {ring=2}");
  EXPECT_EQ(print(parse(text), false), text);
}

// Two products that share their left operand: one stage holds all three tiles.
TEST(Issue, TilesOfAProductShareARing) {
  Function function =
      kernel({.n = 128,
              .right = "%y: bf16[64,128] = load %b, %k, %j {pad=0.0, shape=[64,128], steps=[64,128]}\n"
                       "%y2: bf16[64,128] = load %b, %k, %i {pad=0.0, shape=[64,128], steps=[64,128]}",
              .product = "%p: f32[128,128] = mma %x, %y, %zs\n%q: f32[128,128] = mma %x, %y2, %zs\n"
                         "%g: f32[128,128] = add %acc, %p\n%m: f32[128,128] = add %g, %q"});
  const KernelArrays arrays(function);
  const AsyncPlan plan(function, arrays, hopper, false);
  const std::string text = divided_among_roles(function, plan);
  EXPECT_EQ(text.substr(text.find("  roles")), R"(  roles () {
    for %8, %7, %9 (%11: i32) {
      ring_fill {ring=0}
      ring_load %0, %3, %11 {ring=0, steps=[128,64], tile=0}
      ring_load %1, %11, %4 {ring=0, steps=[64,128], tile=1}
      ring_load %1, %11, %3 {ring=0, steps=[64,128], tile=2}
      ring_next {ring=0}
      yield
    }
    yield
  } () {
    yield
  } () {
    %12: f32[128,128] = broadcast %10 {shape=[128,128]}
    %13: f32[128,128] = for %8, %7, %9, %12 (%14: i32, %15: f32[128,128]) {
      ring_wait {ring=0}
      %16: bf16[128,64] = ring_tile {dtype=bf16, ring=0, shape=[128,64], tile=0}
      %17: bf16[64,128] = ring_tile {dtype=bf16, ring=0, shape=[64,128], tile=1}
      %18: bf16[64,128] = ring_tile {dtype=bf16, ring=0, shape=[64,128], tile=2}
      %19: f32[128,128] = undefined {dtype=f32, shape=[128,128]}
      %20: bool = constant {dtype=bool, value=0}
      %21: f32[128,128] = mma_issue %16, %17, %19, %20 {left_transposed=0, right_transposed=0}
      %22: f32[128,128] = undefined {dtype=f32, shape=[128,128]}
      %23: bool = constant {dtype=bool, value=0}
      %24: f32[128,128] = mma_issue %16, %18, %22, %23 {left_transposed=0, right_transposed=0}
      %25: f32[128,128] = mma_await %21 {pending=1}
      %26: f32[128,128] = add %15, %25
      %27: f32[128,128] = mma_await %24 {pending=0}
      ring_release {ring=0}
      ring_next {ring=0}
      %28: f32[128,128] = add %26, %27
      yield %28
    }
    %29: bf16[128,128] = astype %13 {dtype=bf16}
    store_async %2, %29, %3, %4 {steps=[128,128], tile=0}
    store_wait
    yield
  }
}
)");
}

// The wait for its own tile keeps a product behind the reads of a row of the product before.
TEST(AsyncPlan, TilesDoNotShareARingWhereTheLoopLoadsRows) {
  const auto rings = [](const std::string& shape) {
    const Function function =
        kernel({.product = "%e: bf16" + shape + " = load %c, %i, %k {pad=0.0, shape=" + shape +
                           ", steps=" + shape + "}\n%f: f32" + shape +
                           " = astype %e {dtype=f32}\n%g: f32[128,256] = broadcast %f "
                           "{shape=[128,256]}\n%p: f32[128,256] = mma %x, %y, %zs\n"
                           "%h: f32[128,256] = mul %p, %g\n%m: f32[128,256] = add %acc, %h"});
    return AsyncPlan(function, KernelArrays(function), hopper, false).rings.size();
  };
  EXPECT_EQ(rings("[128,1]"), 1);
  EXPECT_EQ(rings("[1,256]"), 2);
}

// Two products with a scale of each row, which the iteration before has loaded. The load follows the first
// product's start, and the second product takes the registers of the first one's sums.
TEST(Issue, LoadsForTheNextIterationAreNotWaitedFor) {
  const std::string text = with(
      text_of({.n = 256,
               .left = "%x: f8e4m3[128,64] = load %a, %i, %k {pad=0.0, shape=[128,64], steps=[128,64]}",
               .right = "%y: f8e4m3[64,256] = load %b, %k, %j {pad=0.0, shape=[64,256], steps=[64,256]}\n"
                        "%y2: f8e4m3[64,256] = load %b, %k, %i {pad=0.0, shape=[64,256], steps=[64,256]}",
               .product = "%p: f32[128,256] = mma %x, %y, %zs\n%g: f32[128,256] = add %acc, %p\n"
                          "%q: f32[128,256] = mma %x, %y2, %zs\n%f: f32[128,1] = astype %s {dtype=f32}\n"
                          "%h: f32[128,256] = broadcast %f {shape=[128,256]}\n"
                          "%l: f32[128,256] = mul %q, %h\n%m: f32[128,256] = add %g, %l\n"
                          "%next: i32 = add %k, %1\n"
                          "%e: bf16[128,1] = load %c, %i, %next {pad=0.0, shape=[128,1], steps=[128,1]}",
               .start = "%zs: f32[128,256] = broadcast %z {shape=[128,256]}\n"
                        "%s0: bf16[128,1] = load %c, %i, %0 {pad=0.0, shape=[128,1], steps=[128,1]}"}),
      "%a: array<bf16,2>, %b: array<bf16,2>", "%a: array<f8e4m3,2>, %b: array<f8e4m3,2>");
  Function function = parse(with(
      with(text, "%r: f32[128,256] = for %0, %t, %1, %zs (%k: i32, %acc: f32[128,256])",
           "%r: f32[128,256], %rs: bf16[128,1] = for %0, %t, %1, %zs, %s0 (%k: i32, %acc: f32[128,256], %s: "
           "bf16[128,1])"),
      "yield %m", "yield %m, %e"));
  make_dense(function, 3);
  function.attributes().set("array.1.unit", int64_t{0});
  const AsyncPlan plan(function, KernelArrays(function), hopper, false);
  const std::string divided = divided_among_roles(function, plan);
  const size_t wait = divided.find("ring_wait");
  EXPECT_EQ(divided.substr(wait, divided.find("yield", wait) - wait), R"(ring_wait {ring=0}
      %19: f8e4m3[128,64] = ring_tile {dtype=f8e4m3, ring=0, shape=[128,64], tile=0}
      %20: f8e4m3[64,256] = ring_tile {dtype=f8e4m3, ring=0, shape=[64,256], tile=1}
      %21: f8e4m3[64,256] = ring_tile {dtype=f8e4m3, ring=0, shape=[64,256], tile=2}
      %22: f32[128,256] = undefined {dtype=f32, shape=[128,256]}
      %23: bool = constant {dtype=bool, value=0}
      %24: f32[128,256] = mma_issue %19, %20, %22, %23 {left_transposed=0, right_transposed=0}
      %25: i32 = add %16, %9
      %26: bf16[128,1] = load %2, %3, %25 {pad=0.0, shape=[128,1], steps=[128,1]}
      %27: f32[128,256] = mma_await %24 {pending=0}
      %28: f32[128,256] = add %17, %27
      %29: bool = constant {dtype=bool, value=0}
      %30: f32[128,256] = mma_issue %19, %21, %27, %29 {left_transposed=0, right_transposed=0}
      %31: f32[128,1] = astype %18 {dtype=f32}
      %32: f32[128,256] = broadcast %31 {shape=[128,256]}
      %33: f32[128,256] = mma_await %30 {pending=0}
      ring_release {ring=0}
      ring_next {ring=0}
      %34: f32[128,256] = mul %33, %32
      %35: f32[128,256] = add %28, %34
      )");
}

// While a loop adds the sums of one product to others, the next product runs.
TEST(Issue, StartsAProductBeforeTheSumsOfTheLastOneAreAdded) {
  Function function = parse(with(
      text_of({.n = 128,
               .left = "%x: f8e4m3[128,64] = load %a, %i, %k {pad=0.0, shape=[128,64], steps=[128,64]}\n"
                       "%x2: f8e4m3[128,64] = load %a, %j, %k {pad=0.0, shape=[128,64], steps=[128,64]}",
               .right = "%y: f8e4m3[64,128] = load %b, %k, %j {pad=0.0, shape=[64,128], steps=[64,128]}\n"
                        "%y2: f8e4m3[64,128] = load %b, %k, %i {pad=0.0, shape=[64,128], steps=[64,128]}",
               .product = "%p: f32[128,128] = mma %x, %y, %zs\n%g: f32[128,128] = add %acc, %p\n"
                          "%q: f32[128,128] = mma %x2, %y2, %zs\n%m: f32[128,128] = add %g, %q"}),
      "%a: array<bf16,2>, %b: array<bf16,2>", "%a: array<f8e4m3,2>, %b: array<f8e4m3,2>"));
  make_dense(function, 3);
  function.attributes().set("array.1.unit", int64_t{0});
  const AsyncPlan plan(function, KernelArrays(function), hopper, false);
  ASSERT_EQ(plan.why_not, "");
  EXPECT_EQ(plan.rings.size(), 2);
  const std::string divided = divided_among_roles(function, plan);
  const size_t wait = divided.find("ring_wait");
  EXPECT_EQ(divided.substr(wait, divided.find("yield", wait) - wait), R"(ring_wait {ring=0}
      %16: f8e4m3[128,64] = ring_tile {dtype=f8e4m3, ring=0, shape=[128,64], tile=0}
      %17: f8e4m3[64,128] = ring_tile {dtype=f8e4m3, ring=0, shape=[64,128], tile=1}
      %18: f32[128,128] = undefined {dtype=f32, shape=[128,128]}
      %19: bool = constant {dtype=bool, value=0}
      %20: f32[128,128] = mma_issue %16, %17, %18, %19 {left_transposed=0, right_transposed=0}
      ring_wait {ring=1}
      %21: f8e4m3[128,64] = ring_tile {dtype=f8e4m3, ring=1, shape=[128,64], tile=0}
      %22: f8e4m3[64,128] = ring_tile {dtype=f8e4m3, ring=1, shape=[64,128], tile=1}
      %23: f32[128,128] = undefined {dtype=f32, shape=[128,128]}
      %24: bool = constant {dtype=bool, value=0}
      %25: f32[128,128] = mma_issue %21, %22, %23, %24 {early=1, left_transposed=0, right_transposed=0}
      %26: f32[128,128] = mma_await %20 {pending=1}
      ring_release {ring=0}
      ring_next {ring=0}
      %27: f32[128,128] = add %15, %26
      %28: f32[128,128] = mma_await %25 {early=1, pending=0}
      ring_release {ring=1}
      ring_next {ring=1}
      %29: f32[128,128] = add %27, %28
      )");
}

// A small load in front of a product, and the index that only it needs, follow the product's start.
TEST(Issue, StartsAProductInFrontOfSmallLoads) {
  const std::string text = text_of(
      {.left = "%x: f8e4m3[128,64] = load %a, %i, %k {pad=0.0, shape=[128,64], steps=[128,64]}",
       .right = "%y: f8e4m3[64,256] = load %b, %k, %j {pad=0.0, shape=[64,256], steps=[64,256]}",
       .product =
           "%next: i32 = add %k, %1\n%e: bf16[128,1] = load %c, %i, %next {pad=0.0, shape=[128,1], "
           "steps=[128,1]}\n%p: f32[128,256] = mma %x, %y, %zs\n%f: f32[128,1] = astype %e "
           "{dtype=f32}\n%g: f32[128,256] = broadcast %f {shape=[128,256]}\n%h: f32[128,256] = mul %p, "
           "%g\n%m: f32[128,256] = add %acc, %h"});
  Function function =
      parse(with(text, "%a: array<bf16,2>, %b: array<bf16,2>", "%a: array<f8e4m3,2>, %b: array<f8e4m3,2>"));
  make_dense(function, 3);
  function.attributes().set("array.1.unit", int64_t{0});
  const KernelArrays arrays(function);
  const AsyncPlan plan(function, arrays, hopper, false);
  const std::string divided = divided_among_roles(function, plan);
  const size_t groups = divided.find("} () {"), issue = divided.find("mma_issue", groups),
               index = divided.find("= add", groups), load = divided.find("= load", groups),
               await = divided.find("mma_await", groups);
  EXPECT_LT(issue, index);
  EXPECT_LT(index, load);
  EXPECT_LT(load, await);
}

// A persistent kernel of 3 blocks computes what a grid of 2 x 2 x 2 blocks does.
TEST(Persist, ComputesTheSame) {
  const std::string text = R"(kernel k(%x: array<f32,2>) {
  %a: i32 = bid {axis=0}
  %b: i32 = bid {axis=1}
  %c: i32 = bid {axis=2}
  %n: i32 = num_blocks {axis=1}
  %bn: i32 = mul %b, %n
  %cb: i32 = add %bn, %c
  %t: f32[1,2] = load %x, %cb, %a {pad=0.0, shape=[1,2], steps=[1,2]}
  %d: i32 = dim %x {axis=1}
  %f: f32 = astype %d {dtype=f32}
  %fs: f32[1,2] = broadcast %f {shape=[1,2]}
  %s: f32[1,2] = add %t, %fs
  store %x, %s, %cb, %a {steps=[1,2]}
}
)";
  Function function = parse(text);
  make_persistent(function);
  verify(function, "make_persistent");
  const auto run = [](const std::string& kernel, Grid grid, const std::vector<Argument>& extents) {
    Matrices matrices;
    matrices.add(4, 4, [](size_t at) { return static_cast<float>(at); });
    return matrices.run(kernel, grid, extents);
  };
  const std::vector<float> expected = run(text, {2, 2, 2}, {});
  EXPECT_EQ(expected[5], 9);
  const std::vector<Argument> extents(3, scalar_argument(int32_t{2}));
  for (const int64_t blocks : {1, 3, 8, 11})
    EXPECT_EQ(run(print(function, false), {blocks, 1, 1}, extents), expected) << blocks;
}

}  // namespace
}  // namespace tile::cuda
