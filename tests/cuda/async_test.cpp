// Tests the passes of asynchronous kernels: which kernels they take, and their text before and after.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda/async/epilogue.h"
#include "cuda/async/persist.h"
#include "cuda/async/plan.h"
#include "cuda/async/roles.h"
#include "cuda/async/skew.h"
#include "cuda/program.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "runtime/text_kernel.h"
#include "support/text.h"

namespace tile::cuda {
namespace {

constexpr Target hopper{.arch = 90, .shared_bytes = 227 * 1024, .wgmma = true};

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
  for (int i = 0; i < 3; ++i) {
    function.attributes().set(str("array.", i, ".unit"), int64_t{1});
    for (const char* fact : {"aligned", "whole", "small", "forward"})
      function.attributes().set(str("array.", i, ".", fact), int64_t{1});
  }
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

// Products whose loop computes more, or whose sum does not begin at zero, are awaited in their block.
TEST(AsyncPlan, TakesLoopsThatComputeMore) {
  EXPECT_EQ(why_not({.product = "%h: f32[128,256] = mul %acc, %acc\n%m: f32[128,256] = mma %x, %y, %h"}), "");
  EXPECT_EQ(why_not({.start = "%h: f32 = constant {dtype=f32, value=1.0}\n%zs: f32[128,256] = broadcast %h "
                              "{shape=[128,256]}"}),
            "");
  EXPECT_EQ(why_not({.product = "%h: bf16[128,256] = load %c, %i, %j {pad=0.0, shape=[128,256], "
                                "steps=[128,256]}\n%g: f32[128,256] = astype %h {dtype=f32}\n"
                                "%s: f32[128,256] = mul %acc, %g\n%m: f32[128,256] = mma %x, %y, %s"}),
            "the loop of a product loads a tile that is no operand");
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
  ASSERT_EQ(divide_into_roles(function, plan), std::nullopt);
  verify(function, "divide_into_roles");
  const std::string text = print(function, false);
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

// An epilogue of a bias of each column, a residual and a scale of each row, whose store replaces the
// residual.
constexpr const char* epilogue =
    R"(kernel k(%a: array<f32,2>, %b: array<f32,2>, %bias: array<f32,2>, %c: array<f32,2>) {
  %i: i32 = bid {axis=0}
  %j: i32 = bid {axis=1}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %t: i32 = constant {dtype=i32, value=3}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[8,128] = broadcast %z {shape=[8,128]}
  %r: f32[8,128] = for %0, %t, %1, %zs (%k: i32, %acc: f32[8,128]) {
    %x: f32[8,16] = load %a, %i, %k {pad=0.0, shape=[8,16], steps=[8,16]}
    %y: f32[16,128] = load %b, %k, %j {pad=0.0, shape=[16,128], steps=[16,128]}
    %m: f32[8,128] = mma %x, %y, %acc
    yield %m
  }
  %row: f32[1,128] = load %bias, %0, %j {pad=0.0, shape=[1,128], steps=[1,128]}
  %rows: f32[8,128] = broadcast %row {shape=[8,128]}
  %s: f32[8,128] = add %r, %rows
  %column: f32[8,1] = load %a, %i, %0 {pad=0.0, shape=[8,1], steps=[8,1]}
  %columns: f32[8,128] = broadcast %column {shape=[8,128]}
  %p: f32[8,128] = mul %s, %columns
  %u: f32[8,128] = load %c, %i, %j {pad=0.0, shape=[8,128], steps=[8,128]}
  %e: f32[8,128] = add %p, %u
  store %c, %e, %i, %j {steps=[8,128]}
}
)";

TEST(Epilogue, IsRepeatedForPanels) {
  Function function = parse(epilogue);
  divide_epilogues(function);
  verify(function, "divide_epilogues");
  const std::string text = print(function, false);
  EXPECT_EQ(text.substr(text.find("  %17")),
            R"(  %17: f32[8,1] = load %0, %4, %6 {pad=0.0, shape=[8,1], steps=[8,1]}
  %18: i32 = constant {dtype=i32, value=0}
  %19: i32 = constant {dtype=i32, value=0}
  %20: f32[8,64] = extract %11, %18, %19 {panel=0, shape=[8,64]}
  %21: i64 = astype %5 {dtype=i64}
  %22: i64 = constant {dtype=i64, value=2}
  %23: i64 = mul %21, %22
  %24: f32[1,64] = load %2, %6, %23 {pad=0.0, panel=0, shape=[1,64], steps=[1,64]}
  %25: f32[8,64] = broadcast %24 {shape=[8,64]}
  %26: f32[8,64] = add %20, %25
  %27: f32[8,64] = broadcast %17 {shape=[8,64]}
  %28: f32[8,64] = mul %26, %27
  %29: f32[8,64] = load %3, %4, %23 {pad=0.0, panel=0, shape=[8,64], steps=[8,64]}
  %30: f32[8,64] = add %28, %29
  store %3, %30, %4, %23 {panel=0, steps=[8,64]}
  %31: i32 = constant {dtype=i32, value=1}
  %32: f32[8,64] = extract %11, %18, %31 {panel=1, shape=[8,64]}
  %33: i64 = constant {dtype=i64, value=1}
  %34: i64 = add %23, %33
  %35: f32[1,64] = load %2, %6, %34 {pad=0.0, panel=1, shape=[1,64], steps=[1,64]}
  %36: f32[8,64] = broadcast %35 {shape=[8,64]}
  %37: f32[8,64] = add %32, %36
  %38: f32[8,64] = broadcast %17 {shape=[8,64]}
  %39: f32[8,64] = mul %37, %38
  %40: f32[8,64] = load %3, %4, %34 {pad=0.0, panel=1, shape=[8,64], steps=[8,64]}
  %41: f32[8,64] = add %39, %40
  store %3, %41, %4, %34 {panel=1, steps=[8,64]}
}
)");
}

TEST(Epilogue, ComputesTheSame) {
  Function function = parse(epilogue);
  divide_epilogues(function);
  const auto run = [](const std::string& kernel) {
    std::vector<std::vector<float>> data{std::vector<float>(20 * 40), std::vector<float>(40 * 200),
                                         std::vector<float>(200), std::vector<float>(20 * 200)};
    std::vector<Argument> arguments;
    const int64_t sizes[][2] = {{20, 40}, {40, 200}, {1, 200}, {20, 200}};
    for (size_t i = 0; i < data.size(); ++i) {
      for (size_t at = 0; at < data[i].size(); ++at)
        data[i][at] = static_cast<float>((at * 37 + i * 11) % 101) / 64 - 0.7f;
      ArrayArgument array;
      array.data = data[i].data(), array.dtype = DType::f32, array.rank = 2;
      array.sizes[0] = static_cast<int32_t>(sizes[i][0]), array.sizes[1] = static_cast<int32_t>(sizes[i][1]);
      array.strides[0] = sizes[i][1], array.strides[1] = 1;
      arguments.emplace_back(array);
    }
    TextKernel(kernel).launch({3, 2, 1}, arguments);
    return data[3];
  };
  EXPECT_EQ(run(print(function, false)), run(epilogue));
}

// Kernels whose epilogue cannot be repeated stay as they are.
TEST(Epilogue, StaysWholeIfPanelsWouldDiffer) {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = epilogue;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    Function function = parse(text);
    const std::string before = print(function, false);
    divide_epilogues(function);
    return print(function, false) != before;
  };
  EXPECT_TRUE(changed("mul %s, %columns", "sub %s, %columns"));
  // An op that moves elements to other columns.
  EXPECT_FALSE(changed("%e: f32[8,128] = add %p, %u",
                       "%q: f32[128,8] = permute %p {axes=[1,0]}\n"
                       "  %qs: f32[8,128] = permute %q {axes=[1,0]}\n"
                       "  %e: f32[8,128] = add %qs, %u"));
  // The residual is another tile of the array that is stored.
  EXPECT_FALSE(changed("load %c, %i, %j {pad=0.0, shape=[8,128], steps=[8,128]}",
                       "load %c, %j, %i {pad=0.0, shape=[8,128], steps=[8,128]}"));
  // Two stores to one array.
  EXPECT_FALSE(changed("%u: f32", "store %c, %p, %i, %0 {steps=[8,128]}\n  %u: f32"));
  // A store of other values to a part of what is stored.
  EXPECT_FALSE(changed("  store %c, %e, %i, %j {steps=[8,128]}\n",
                       "  store %c, %e, %i, %j {steps=[8,128]}\n"
                       "  %v: f32[8,8] = broadcast %z {shape=[8,8]}\n  store %c, %v, %i, %j {steps=[8,8]}\n"
                       "  store %b, %s, %i, %j {steps=[8,128]}\n"));
  // A load of what the first of two stores writes.
  EXPECT_FALSE(changed("%u: f32",
                       "store %bias, %p, %i, %j {steps=[8,128]}\n"
                       "  %v: f32[1,1] = load %bias, %0, %0 {pad=0.0, shape=[1,1], steps=[1,1]}\n"
                       "  store %b, %v, %0, %0 {steps=[1,1]}\n  %u: f32"));
}

std::string with(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// A sum of weights and of weighted values over tiles of 64 keys, for 128 queries. Tiles before %at are taken
// by the first loop, and those from there on, whose scores are not below 0, by the second.
std::string two_loops(const std::string& dtype) {
  const auto loop = [](const std::string& n, const std::string& head, const std::string& mask) {
    return with(
        with(R"(  %x*: f32[128,1], %o*: f32[128,64] = for HEAD (%j*: i32, %a*: f32[128,1], %b*: f32[128,64]) {
    %k*: TYPE[64,64] = load %key, %j*, %0 {pad=0.0, shape=[64,64], steps=[64,64]}
    %t*: TYPE[64,64] = permute %k* {axes=[1,0]}
    %u*: f32[128,64] = mma %q, %t*, %zs
    )",
             "HEAD", head) +
            mask + R"(
    %e*: f32[128,64] = abs %w*
    %s*: f32[128] = reduce_sum %e* {axes=[1]}
    %c*: f32[128,1] = reshape %s* {shape=[128,1]}
    %d*: f32[128,1] = add %a*, %c*
    %h*: f32[128,1] = minimum %c*, %twos
    %p*: TYPE[128,64] = astype %e* {dtype=TYPE}
    %v*: TYPE[64,64] = load %value, %j*, %0 {pad=0.0, shape=[64,64], steps=[64,64]}
    %f*: f32[128,64] = broadcast %h* {shape=[128,64]}
    %g*: f32[128,64] = mul %b*, %f*
    %m*: f32[128,64] = mma %p*, %v*, %g*
    yield %d*, %m*
  }
)",
        "*", n);
  };
  return with(
      R"(kernel k(%query: array<TYPE,2>, %key: array<TYPE,2>, %value: array<TYPE,2>, %out: array<TYPE,2>, %low: i32, %at: i32, %high: i32) {
  %i: i32 = bid {axis=0}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[128,64] = broadcast %z {shape=[128,64]}
  %zc: f32[128,1] = broadcast %z {shape=[128,1]}
  %two: f32 = constant {dtype=f32, value=2.0}
  %twos: f32[128,1] = broadcast %two {shape=[128,1]}
  %from: i32 = maximum %low, %at
  %q: TYPE[128,64] = load %query, %i, %0 {pad=0.0, shape=[128,64], steps=[128,64]}
)" + loop("m", "%low, %at, %1, %zc, %zs {split=1}", "%wm: f32[128,64] = neg %um") +
          loop("n", "%from, %high, %1, %xm, %om {edge=1, split=1}", R"(%ln: bool = lt %jn, %at
    %ls: bool[128,64] = broadcast %ln {shape=[128,64]}
    %yn: f32[128,64] = maximum %un, %zs
    %rn: f32[128,64] = where %ls, %un, %yn
    %wn: f32[128,64] = neg %rn)") +
          R"(  %h: f32[128,64] = broadcast %xn {shape=[128,64]}
  %r: f32[128,64] = add %on, %h
  %w: TYPE[128,64] = astype %r {dtype=TYPE}
  store %out, %w, %i, %0 {steps=[128,64]}
}
)",
      "TYPE", dtype);
}

// The same where the tiles' numbers are in a list.
std::string two_loops_over_a_list(const std::string& dtype) {
  std::string text = with(two_loops(dtype), "%low: i32", "%list: array<i32,1>, %low: i32");
  for (const char* loop : {"m", "n"}) {
    const auto replace = [&](const char* from, const char* to) {
      text = with(text, with(from, "*", loop), with(to, "*", loop));
    };
    replace(
        "    %k*: ",
        "    %at*: array<i32,0> = index %list, %j*\n    %of*: i32 = load %at* {pad=0, shape=[], steps=[]}\n "
        "   %k*: ");
    replace("load %key, %j*", "load %key, %of*");
    replace("load %value, %j*", "load %value, %of*");
  }
  return text;
}

// All numbers are small integers: products of a few tiles have no rounding that another order could change.
void check_skewed(const std::string& before, bool has_list) {
  Function function = parse(before);
  skew_loops(function);
  verify(function, "skew_loops");
  const std::string text = print(function, false);
  EXPECT_NE(text, print(parse(before), false));
  const auto run = [&](const std::string& kernel, int low, int at, int high) {
    std::vector<std::vector<float>> data;
    std::vector<Argument> arguments;
    std::vector<int32_t> list{3, 0, 4, 1, 2};
    for (size_t i = 0; i < 4; ++i) {
      const int64_t rows = i % 3 ? 300 : 200, columns = 60;
      std::vector<float>& values = data.emplace_back(static_cast<size_t>(rows * columns));
      for (size_t k = 0; k < values.size(); ++k)
        values[k] = static_cast<float>((k * 37 + i * 11) % 101 % 3) - 1;
      ArrayArgument array;
      array.data = values.data(), array.dtype = DType::f32, array.rank = 2;
      array.sizes[0] = static_cast<int32_t>(rows), array.sizes[1] = columns;
      array.strides[0] = columns, array.strides[1] = 1;
      arguments.emplace_back(array);
    }
    if (has_list) {
      ArrayArgument array;
      array.data = list.data(), array.dtype = DType::i32, array.rank = 1;
      array.sizes[0] = static_cast<int32_t>(list.size()), array.strides[0] = 1;
      arguments.emplace_back(array);
    }
    for (const int32_t bound : {low, at, high}) arguments.push_back(scalar_argument(bound));
    TextKernel(kernel).launch({2, 1, 1}, arguments);
    return data[3];
  };
  for (const auto& [low, at, high] : {std::array{0, 0, 0},
                                      {0, 0, 1},
                                      {0, 1, 1},
                                      {0, 0, 3},
                                      {0, 2, 3},
                                      {0, 5, 5},
                                      {1, 3, 5},
                                      {2, 0, 4},
                                      {2, -1, 2},
                                      {3, 1, 2}})
    EXPECT_EQ(run(text, low, at, high), run(before, low, at, high)) << low << ' ' << at << ' ' << high;
}
TEST(Skew, ComputesTheSame) { check_skewed(two_loops("f32"), false); }
TEST(Skew, LoadsTheNumberOfATileForBothParts) { check_skewed(two_loops_over_a_list("f32"), true); }

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
    for (int i = 0; i < 3; ++i) {
      function.attributes().set(str("array.", i, ".unit"), int64_t{1});
      for (const char* fact : {"aligned", "whole", "small", "forward"})
        function.attributes().set(str("array.", i, ".", fact), int64_t{1});
    }
    return AsyncPlan(function, KernelArrays(function), hopper, false).stores.size();
  };
  EXPECT_EQ(stores("%i, %right"), 2);
  EXPECT_EQ(stores("%i, %left"), 0);
  EXPECT_EQ(stores("%i, %two"), 0);
}

// Loops whose last product does not only add to a sum stay as they are. Both loops are changed.
TEST(Skew, LeavesOtherLoops) {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = two_loops("bf16");
    for (const char* loop : {"m", "n"}) {
      EXPECT_NE(text.find(with(from, "*", loop)), std::string::npos) << from;
      text = with(text, with(from, "*", loop), with(to, "*", loop));
    }
    Function function = parse(text);
    const std::string before = print(function, false);
    skew_loops(function);
    return print(function, false) != before;
  };
  EXPECT_TRUE(changed("%g*: f32[128,64] = mul", "%g*: f32[128,64] = sub"));
  // The other ops read the sum.
  EXPECT_FALSE(
      changed("%e*: f32[128,64] = abs", "%read*: f32[128,64] = abs %b*\n    %e*: f32[128,64] = sub %read*,"));
  // The left operand is loaded: both products may start at once.
  EXPECT_FALSE(changed("%p*: bf16[128,64] = astype %e* {dtype=bf16}",
                       "%p*: bf16[128,64] = load %query, %j*, %0 {pad=0.0, shape=[128,64], steps=[128,64]}"));
  // The right operand is computed.
  EXPECT_FALSE(changed("mma %p*, %v*, %g*", "mma %p*, %t*, %g*"));
  // An op of the loop acts.
  EXPECT_FALSE(changed("yield %d*", "store %out, %p*, %i, %j* {steps=[128,64]}\n    yield %d*"));
}

// Loops that split_loops did not make of one, or between which something acts, are not skewed as one: the
// first iteration of the second would otherwise run with the body of the first.
TEST(Skew, TakesOnlyPartsOfOneLoopTogether) {
  const auto loops = [](const std::string& text) {
    Function function = parse(text);
    skew_loops(function);
    int count = 0;
    for (const auto& op : function.body().ops) count += op->is("for");
    return count;
  };
  const std::string text = two_loops("bf16");
  constexpr int together = 4, apart = 6;
  EXPECT_EQ(loops(text), together);
  EXPECT_EQ(loops(with(text, "{edge=1, split=1}", "{edge=1, split=2}")), apart);
  EXPECT_EQ(loops(with(with(text, "{edge=1, split=1}", ""), "{split=1}", "")), apart);
  EXPECT_EQ(loops(with(text, "  %xn:", "  store %out, %q, %i, %0 {steps=[128,64]}\n  %xn:")), apart);
}

// The region of the groups: products of an iteration are in flight at once, and rings are freed as soon as
// their products have ended.
TEST(Issue, AwaitsProductsWhereTheyAreUsed) {
  Function function = parse(two_loops("bf16"));
  for (int i = 0; i < 4; ++i) {
    function.attributes().set(str("array.", i, ".unit"), int64_t{1});
    for (const char* fact : {"aligned", "whole", "small", "forward"})
      function.attributes().set(str("array.", i, ".", fact), int64_t{1});
  }
  skew_loops(function);
  const KernelArrays arrays(function);
  const AsyncPlan plan(function, arrays, hopper, false);
  ASSERT_EQ(plan.why_not, "");
  EXPECT_TRUE(plan.awaits);
  ASSERT_EQ(plan.rings.size(), 3U);  // queries, keys and values: parts of a loop share them
  EXPECT_EQ(plan.rings[1].uses.size(), 3U);
  ASSERT_EQ(divide_into_roles(function, plan), std::nullopt);
  verify(function, "divide_into_roles");
  const std::string text = print(function, false);
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
  for (int i = 0; i < 3; ++i) {
    function.attributes().set(str("array.", i, ".unit"), int64_t{i != 1});
    for (const char* fact : {"aligned", "whole", "small", "forward"})
      function.attributes().set(str("array.", i, ".", fact), int64_t{1});
  }
  const KernelArrays arrays(function);
  const AsyncPlan plan(function, arrays, hopper, false);
  ASSERT_EQ(plan.why_not, "");
  ASSERT_EQ(divide_into_roles(function, plan), std::nullopt);
  verify(function, "divide_into_roles");
  const std::string divided = print(function, false);
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
    std::vector<float> data(16);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
    ArrayArgument array;
    array.data = data.data(), array.dtype = DType::f32, array.rank = 2;
    array.sizes[0] = array.sizes[1] = 4, array.strides[0] = 4, array.strides[1] = 1;
    std::vector<Argument> arguments{array};
    arguments.insert(arguments.end(), extents.begin(), extents.end());
    TextKernel(kernel).launch(grid, arguments);
    return data;
  };
  const std::vector<float> expected = run(text, {2, 2, 2}, {});
  EXPECT_EQ(expected[5], 9);
  const std::vector<Argument> extents(3, scalar_argument(int32_t{2}));
  for (const int64_t blocks : {1, 3, 8, 11})
    EXPECT_EQ(run(print(function, false), {blocks, 1, 1}, extents), expected) << blocks;
}

}  // namespace
}  // namespace tile::cuda
