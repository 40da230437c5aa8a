// Tests the adjoint loops: which values are kept, the bound of iterations, folded blocks, and gathers that
// count.
#include <limits>

#include "derive/kept_values.h"
#include "derive/ramp.h"
#include "derive/reverse.h"
#include "error_text.h"
#include "gradients.h"
#include "ir/walk.h"

namespace tile {
namespace {

// Returns a kernel whose loop adds `value` of each tile of a row, from `low` on.
std::string loop_of(std::string_view value, std::string_view low = "%3") {
  return str(R"(kernel rows(%0: array<f64,2>, %1: array<f64,2>) {
  %2: i32 = bid {axis=0}
  %3: i32 = constant {dtype=i32, value=0}
  %4: i32 = constant {dtype=i32, value=1}
  %5: i32 = dim %0 {axis=1}
  %6: i32 = constant {dtype=i32, value=4}
  %7: i32 = cdiv %5, %6
  %8: f64 = constant {dtype=f64, value=1.0}
  %9: f64[1,4] = broadcast %8 {shape=[1,4]}
  %10: f64[1,4] = for )",
             low, R"(, %7, %4, %9 (%11: i32, %12: f64[1,4]) {
    %13: f64[1,4] = load %0, %2, %11 {pad=0.5, shape=[1,4], steps=[1,4]}
)",
             value, R"(    yield %14
  }
  store %1, %10, %2, %3 {steps=[1,4]}
}
)");
}
const std::string sums = loop_of("    %20: f64[1,4] = sin %13\n    %14: f64[1,4] = add %12, %20\n");
const std::string products = loop_of("    %14: f64[1,4] = mul %12, %13\n");

TEST(Loops, SumsAreNotKept) {
  EXPECT_EQ(print(derived_kernel(sums).function, false),
            R"(kernel rows_backward(%0: array<f64,2>, %1: array<f64,2>, %2: array<f64,2>, %3: array<f64,2>) {
  %4: i32 = bid {axis=0}
  %5: i32 = constant {dtype=i32, value=0}
  %6: i32 = constant {dtype=i32, value=1}
  %7: i32 = dim %0 {axis=1}
  %8: i32 = constant {dtype=i32, value=4}
  %9: i32 = cdiv %7, %8
  %10: f64[1,4] = load %2, %4, %5 {pad=0.0, shape=[1,4], steps=[1,4]}
  for %5, %9, %6 (%11: i32) {
    %12: f64[1,4] = load %0, %4, %11 {pad=0.5, shape=[1,4], steps=[1,4]}
    %13: f64[1,4] = cos %12
    %14: f64[1,4] = mul %10, %13
    store %3, %14, %4, %11 {steps=[1,4]}
    yield
  }
}
)");
}

TEST(Loops, FactorsAreKept) {
  const Derived made = derived_kernel(products);
  ASSERT_EQ(made.scratch.size(), 1u);
  EXPECT_EQ(made.scratch[0].shape, (Shape{1, 4}));
  check_gradients(products, {2, 1, 1}, {random_array({2, 11}, 1, 0.5, 1.5), TestArray::of({2, 4})});
}

TEST(Loops, TheNumberOfIterationsIsBounded) {
  for (const auto& [low, expected] : {std::pair{"%3", 5}, {"%4", 4}, {"%2", 5}}) {
    const Derived made = derived_kernel(loop_of("    %14: f64[1,4] = mul %12, %13\n", low));
    const LaunchSizes sizes{{3, 1, 1}, [](size_t, int64_t axis) { return axis == 1 ? 17 : 3; }, nullptr};
    EXPECT_EQ(most_iterations(made.kernel, *made.scratch.at(0).loop, sizes), expected) << low;
  }
}

// Returns a kernel whose loop multiplies tiles, from `low` to `high`. %one, %two: constants; %x: a number of
// %1, which is loaded; %n, %m: scalars.
std::string loop_between(std::string_view dtype, std::string_view ops) {
  std::string text = R"(kernel k(%0: array<f64,2>, %1: array<TYPE,1>, %n: TYPE, %m: TYPE, %2: array<f64,2>) {
  %a: i32 = bid {axis=0}
  %zero: i32 = constant {dtype=i32, value=0}
  %one: TYPE = constant {dtype=TYPE, value=1}
  %two: TYPE = constant {dtype=TYPE, value=2}
  %l: TYPE[1] = load %1, %zero {pad=0, shape=[1], steps=[1]}
  %x: TYPE = reshape %l {shape=[]}
OPS  %3: f64[1,4] = load %0, %a, %zero {pad=0.0, shape=[1,4], steps=[1,4]}
  %4: f64[1,4] = for %low, %high, %one, %3 (%k: TYPE, %t: f64[1,4]) {
    %y: f64[1,4] = sin %t
    %z: f64[1,4] = mul %y, %t
    yield %z
  }
  store %2, %4, %a, %zero {steps=[1,4]}
}
)";
  const auto replace = [&](std::string_view word, std::string_view by) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word))
      text.replace(at, word.size(), by);
  };
  replace("OPS", ops);
  replace("TYPE", dtype);
  return text;
}

TEST(Loops, BoundsOfHalfKnownNumbers) {
  const auto bound = [](std::string_view dtype, std::string_view ops, int64_t n, int64_t m) {
    const Derived made = derived_kernel(loop_between(dtype, ops));
    const LaunchSizes sizes{{1, 1, 1},
                            [](size_t, int64_t) { return int64_t{4}; },
                            [=](size_t parameter) { return parameter == 2 ? n : m; }};
    const auto count = most_iterations(made.kernel, *made.scratch.at(0).loop, sizes);
    EXPECT_EQ(choose_keeping(made, sizes).at(0) == Keeping::places, !count) << ops;
    return count;
  };
  const std::string_view from = "  %low: TYPE = minimum %x, %n\n", to = "  %high: TYPE = minimum %x, %n\n",
                         all = "  %low: TYPE = mul %one, %n\n  %high: TYPE = mul %one, %m\n";
  const auto low = [&](std::string_view ops) { return str(from, ops); };
  const std::string zero = "  %low: TYPE = sub %one, %one\n", m = "  %high: TYPE = mul %m, %one\n";
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  for (const std::string_view dtype : {"i32", "i64"}) {
    EXPECT_EQ(bound(dtype, low(m), 3, 10), std::nullopt);
    EXPECT_EQ(bound(dtype, low("  %high: TYPE = add %low, %two\n"), 3, 10), std::nullopt);
    EXPECT_EQ(bound(dtype, "  %q: TYPE = minimum %x, %n\n  %low: TYPE = floordiv %q, %two\n" + m, 3, 10),
              std::nullopt);
    EXPECT_EQ(bound(dtype, "  %q: TYPE = minimum %x, %n\n  %low: TYPE = sub %q, %two\n" + m, 3, 10),
              std::nullopt);
    EXPECT_EQ(bound(dtype, "  %q: TYPE = minimum %x, %n\n  %low: TYPE = maximum %q, %one\n" + m, 3, 10), 9);
    // A loaded number may end the loop earlier.
    EXPECT_EQ(bound(dtype, str(zero, to), 3, 10), 3);
    EXPECT_EQ(bound(dtype, zero + "  %q: TYPE = minimum %x, %n\n  %high: TYPE = mul %two, %q\n", 3, 10), 6);
    EXPECT_EQ(bound(dtype, zero + "  %q: TYPE = minimum %x, %n\n  %high: TYPE = cdiv %q, %two\n", 3, 10), 2);
    EXPECT_EQ(bound(dtype, zero + "  %q: TYPE = minimum %x, %n\n  %high: TYPE = add %two, %q\n", 3, 10), 5);
    EXPECT_EQ(bound(dtype, zero + "  %q: TYPE = minimum %x, %n\n  %high: TYPE = sub %m, %q\n", 3, 10),
              std::nullopt);
    EXPECT_EQ(bound(dtype, std::string(all), 3, 10), 7);
    EXPECT_EQ(bound(dtype, std::string(all), 10, 3), 0);
  }
  EXPECT_EQ(bound("i64", std::string(all), least, most), std::nullopt);
  EXPECT_EQ(bound("i64", std::string(all), most, least), std::nullopt);
  EXPECT_EQ(bound("i64", std::string(all), 0, int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(bound("i64", std::string(all), 0, (int64_t{1} << 31) - 1), (int64_t{1} << 31) - 1);
  EXPECT_EQ(bound("i64", std::string(all), most - 2, most), 2);
  EXPECT_EQ(bound("i64", zero + "  %high: TYPE = add %m, %m\n", 0, most), std::nullopt);
  EXPECT_EQ(bound("i64", zero + "  %high: TYPE = mul %m, %m\n", 0, most), std::nullopt);
  EXPECT_EQ(bound("i64", "  %low: TYPE = sub %n, %m\n  %high: TYPE = sub %one, %one\n", least, most),
            std::nullopt);
}

// Only the kernel's loop stores the values at the beginning of segments, not the copy of it in the adjoint
// loop.
TEST(Loops, SegmentsAreStoredOnce) {
  for (const Keeping way : {Keeping::segments, Keeping::places}) {
    const Derived made = derived_kernel(products, -1, Sharing::partial, {way});
    ASSERT_EQ(made.scratch.size(), 2u);
    for (const DerivedScratch& each : made.scratch) {
      int stores = 0;
      walk(made.function.body(), [&](const Op& op) {
        stores +=
            op.traits().writes && root_array(op.operands[0]) == made.function.body().arguments[each.position];
      });
      EXPECT_EQ(stores, 1) << print(made.function, false);
    }
  }
}

constexpr std::string_view weighted =
    R"(kernel weighted(%0: array<f64,2>, %1: array<f64,1>, %2: array<f64,2>) {
  %3: i32 = bid {axis=0}
  %4: i32 = constant {dtype=i32, value=0}
  %5: f64[1,4] = load %0, %3, %4 {pad=0.0, shape=[1,4], steps=[1,4]}
  %6: f64[4] = load %1, %4 {pad=0.0, shape=[4], steps=[4]}
  %7: f64[1,4] = reshape %6 {shape=[1,4]}
  %8: f64[1,4] = mul %5, %7
  store %2, %8, %3, %4 {steps=[1,4]}
}
)";
TEST(Loops, FoldedBlocksAddUpWhatTheyShare) {
  const Derived made = derived_kernel(weighted, 0);
  EXPECT_EQ(made.folded_axis, 0);
  EXPECT_EQ(
      print(made.function, false),
      R"(kernel weighted_backward(%0: array<f64,2>, %1: array<f64,1>, %2: array<f64,2>, %3: i32, %4: array<f64,2>, %5: array<f64,2>, %6: array<f64,2>) {
  %7: i32 = bid {axis=0}
  %8: i32 = num_blocks {axis=0}
  %9: i32 = constant {dtype=i32, value=0}
  %10: f64[4] = load %1, %9 {pad=0.0, shape=[4], steps=[4]}
  %11: f64[1,4] = reshape %10 {shape=[1,4]}
  %12: f64 = constant {dtype=f64, value=0.0}
  %13: f64[1,4] = broadcast %12 {shape=[1,4]}
  %14: f64[1,4] = for %7, %3, %8, %13 (%15: i32, %16: f64[1,4]) {
    %17: f64[1,4] = load %0, %15, %9 {pad=0.0, shape=[1,4], steps=[1,4]}
    %18: f64[1,4] = load %4, %15, %9 {pad=0.0, shape=[1,4], steps=[1,4]}
    %19: f64[1,4] = mul %18, %11
    %20: f64[1,4] = mul %18, %17
    store %5, %19, %15, %9 {steps=[1,4]}
    %21: f64[1,4] = add %16, %20
    yield %21
  }
  %22: f64[4] = reshape %14 {shape=[4]}
  %23: i32 = bid {axis=0}
  %24: array<f64,1> = index %6, %23
  store %24, %22, %9 {steps=[4]}
}
)");
}

// Returns true if a gather of 8 elements at the tile %t names different elements.
bool counts(std::string_view indices) {
  const Function kernel = parse(str("kernel k(%0: array<f32,1>, %1: i32, %2: i32) {\n", indices,
                                    "  %i: f32[8] = gather %0, %t {pad=0.0}\n}\n"));
  return !distinct_ramps(*kernel.body().ops.back()).empty();
}
TEST(Loops, IndexTilesThatCount) {
  const std::string range = "  %r: i32[8] = arange {dtype=i32, size=8}\n";
  const std::string start = "  %b: i32[8] = broadcast %1 {shape=[8]}\n";
  EXPECT_TRUE(counts(range + start + "  %t: i32[8] = add %r, %b\n"));
  EXPECT_TRUE(counts(range + "  %t: i64[8] = astype %r {dtype=i64}\n"));
  EXPECT_FALSE(counts(range + "  %t: i32[8] = mul %r, %r\n"));
  EXPECT_FALSE(counts(range + "  %t: i32[8] = add %r, %r\n"));
  EXPECT_FALSE(counts("  %t: i32[8] = broadcast %1 {shape=[8]}\n"));
}

TEST(Loops, ValuesOfSegmentsAreComputedAgain) {
  const Derived made = derived_kernel(products, -1, Sharing::partial, {Keeping::segments});
  ASSERT_EQ(made.scratch.size(), 2u);
  for (const auto& [columns, firsts, others] :
       {std::tuple{0, 1, 1}, {1, 1, 1}, {4, 1, 1}, {17, 2, 3}, {64, 4, 4}, {68, 4, 5}}) {
    const LaunchSizes sizes{
        {3, 1, 1}, [&](size_t, int64_t axis) { return axis == 1 ? columns : 3; }, nullptr};
    EXPECT_EQ(places_of(made, made.scratch[0], sizes), firsts) << columns;
    EXPECT_EQ(places_of(made, made.scratch[1], sizes), others) << columns;
  }
  for (const int64_t columns : {1, 4, 17, 64, 68})
    check_gradients(products, {2, 1, 1}, {random_array({2, columns}, 1, 0.5, 1.5), TestArray::of({2, 4})});
}

TEST(Loops, LargeArraysOfManyIterationsAreKeptInSegments) {
  const Derived made = derived_kernel(products);
  const auto way = [&](int64_t blocks, int64_t columns, int64_t bytes = 0) {
    const LaunchSizes sizes{
        {blocks, 1, 1}, [=](size_t, int64_t axis) { return axis == 1 ? columns : blocks; }, nullptr, bytes};
    return choose_keeping(made, sizes).at(0);
  };
  EXPECT_EQ(way(1, 4096), Keeping::all);    // 1024 iterations of 32 bytes
  EXPECT_EQ(way(128, 4096), Keeping::all);  // 4 MiB
  EXPECT_EQ(way(129, 4096), Keeping::segments);
  EXPECT_EQ(way(129, 4096, int64_t{1} << 20), Keeping::all);  // the launch's arrays are much larger
  EXPECT_EQ(way(1 << 20, 64), Keeping::all);                  // 16 iterations
  EXPECT_EQ(way(1 << 20, 68), Keeping::segments);
}

// Returns a kernel whose loop has this region, of an index and a tile, from %2 and %3 on.
std::string until(std::string_view region) {
  return str(R"(kernel k(%0: array<f64,2>, %1: array<f64,2>) {
  %a: i32 = bid {axis=0}
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  %six: i32 = constant {dtype=i32, value=6}
  %3: f64[1,4] = load %0, %a, %zero {pad=0.0, shape=[1,4], steps=[1,4]}
  %4: i32, %5: f64[1,4] = loop %zero, %3 (%k: i32, %t: f64[1,4]) {
)",
             region, R"(  }
  store %1, %5, %a, %zero {steps=[1,4]}
}
)");
}
const std::string next =
    "    %x: f64[1,4] = sin %t\n    %y: f64[1,4] = mul %x, %t\n    %n: i32 = add %k, %one\n";
std::optional<int64_t> bound_of(const std::string& text) {
  const Derived made = derived_kernel(text);
  const LaunchSizes sizes{{3, 1, 1}, [](size_t, int64_t) { return 17; }, nullptr};
  return most_iterations(made.kernel, *made.scratch.at(0).loop, sizes);
}

TEST(Loops, ComparisonsBoundIterations) {
  const auto when = [](std::string_view condition, bool goes_on) {
    return until(str("    %c: bool = ", condition, "\n    if %c () {\n      ",
                     goes_on ? "yield" : "break %k, %t", "\n    } () {\n      ",
                     goes_on ? "break %k, %t" : "yield", "\n    }\n", next, "    continue %n, %y\n"));
  };
  for (const auto& [condition, goes_on, expected] : {std::tuple{"lt %k, %six", true, 6},
                                                     {"gt %six, %k", true, 6},
                                                     {"le %k, %six", true, 7},
                                                     {"ge %k, %six", false, 6},
                                                     {"gt %k, %six", false, 7}}) {
    const std::string text = when(condition, goes_on);
    EXPECT_EQ(bound_of(text), expected) << text;
    check_gradients(text, {2, 1, 1}, {random_array({2, 4}, 1), TestArray::of({2, 4})});
  }
  EXPECT_EQ(bound_of(when("ne %k, %six", true)), std::nullopt);
  check_gradients(when("ne %k, %six", true), {2, 1, 1}, {random_array({2, 4}, 1), TestArray::of({2, 4})});
}

// Returns how many loops without bounds a derived kernel has: those that count iterations.
int64_t counting_loops(const std::string& text) {
  int64_t count = 0;
  walk(derived_kernel(text).function.body(), [&](const Op& op) { count += op.is("loop"); });
  return count;
}
TEST(Loops, OneComparisonWithALimitNeedsNoCount) {
  const auto when = [](std::string_view test, std::string_view more = "") {
    return until(str("    %c: bool = ", test,
                     "\n    if %c () {\n      yield\n    } () {\n      break %k, %t\n    }\n", next, more,
                     "    continue %n, %y\n"));
  };
  EXPECT_EQ(counting_loops(when("lt %k, %six")), 0);
  EXPECT_EQ(counting_loops(when("gt %six, %k")), 0);
  EXPECT_EQ(counting_loops(when("lt %six, %k")), 1);
  EXPECT_EQ(counting_loops(when("ne %k, %six")), 1);
  EXPECT_EQ(counting_loops(when("lt %k, %six",
                                "    %s: f64 = reduce_sum %y {axes=[0,1]}\n    %d: bool = gt %s, %s\n"
                                "    if %d () {\n      break %n, %y\n    } () {\n      yield\n    }\n")),
            1);
}

// Blocks that take turns at the elements, as persistent kernels do, in a loop with a condition.
TEST(Loops, ElementsThatAreDealtToBlocks) {
  check_gradients(R"(kernel dealt(%0: array<f64,1>, %1: array<f64,1>) {
  %2: i32 = bid {axis=0}
  %3: i32 = num_blocks {axis=0}
  %4: i32 = dim %0 {axis=0}
  %5: i32 = loop %2 (%6: i32) {
    %7: bool = lt %6, %4
    if %7 () {
      yield
    } () {
      break %6
    }
    %8: f64[1] = load %0, %6 {pad=0.0, shape=[1], steps=[1]}
    %9: f64[1] = sin %8
    store %1, %9, %6 {steps=[1]}
    %10: i32 = add %6, %3
    continue %10
  }
}
)",
                  {3, 1, 1}, {random_array({8}, 1), TestArray::of({8})});
}

TEST(Loops, LoopsThatAreLeftAtOnce) {
  check_gradients(until(next + "    break %n, %y\n"), {2, 1, 1},
                  {random_array({2, 4}, 1), TestArray::of({2, 4})});
}

TEST(Loops, LoopsWithoutAnEndAreRefused) {
  const std::string text = until(next + "    continue %n, %y\n");
  const auto at = text.find("= loop");
  const std::string located =
      text.substr(0, text.find('\n', at)) + "  // user.py:9" + text.substr(text.find('\n', at));
  EXPECT_EQ(error_of([&] { derived_kernel(located); }),
            "user.py:9: loop: has no derivative; it has no end; leave it by its condition or break");
}

}  // namespace
}  // namespace tile
