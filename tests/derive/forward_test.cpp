// Tests forward mode: as text for a few kernels, and against finite differences for many.
#include "derive/forward.h"

#include "error_text.h"
#include "gradients.h"

namespace tile {
namespace {

Function derived(std::string_view text, const std::vector<bool>& active) {
  const Function kernel = parse(text);
  return forward(kernel, active);
}
std::string derived_text(std::string_view text, const std::vector<bool>& active) {
  return print(derived(text, active), false);
}

// The tangents of loads and stores are at the same places; padding has none.
TEST(Forward, LoadMultiplyStore) {
  EXPECT_EQ(
      derived_text(R"(kernel k(%x: array<f32,1>, %y: array<f32,1>, %out: array<f32,1>) {
  %i: i32 = bid {axis=0}
  %a: f32[4] = load %x, %i {pad=1.0, shape=[4], steps=[4]}
  %b: f32[4] = load %y, %i {pad=0.0, shape=[4], steps=[4]}
  %c: f32[4] = mul %a, %b
  store %out, %c, %i {steps=[4]}
})",
                   {true, false, true}),
      R"(kernel k_forward_mode(%0: array<f32,1>, %1: array<f32,1>, %2: array<f32,1>, %3: array<f32,1>, %4: array<f32,1>) {
  %5: i32 = bid {axis=0}
  %6: f32[4] = load %0, %5 {pad=1.0, shape=[4], steps=[4]}
  %7: f32[4] = load %3, %5 {pad=0.0, shape=[4], steps=[4]}
  %8: f32[4] = load %1, %5 {pad=0.0, shape=[4], steps=[4]}
  %9: f32[4] = mul %6, %8
  %10: f32[4] = mul %7, %8
  %11: f32[4] = mul %7, %6
  store %2, %9, %5 {steps=[4]}
  store %4, %10, %5 {steps=[4]}
}
)");
}

// The product's tangent is a second and a third product; what the loop carries has a tangent that it carries,
// too.
TEST(Forward, ProductInALoop) {
  EXPECT_EQ(
      derived_text(R"(kernel k(%x: array<f32,2>, %y: array<f32,2>, %out: array<f32,2>, %n: i32) {
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  %none: f32 = constant {dtype=f32, value=0.0}
  %start: f32[16,16] = broadcast %none {shape=[16,16]}
  %sum: f32[16,16] = for %zero, %n, %one, %start (%k: i32, %acc: f32[16,16]) {
    %a: f32[16,16] = load %x, %zero, %k {pad=0.0, shape=[16,16], steps=[16,16]}
    %b: f32[16,16] = load %y, %k, %zero {pad=0.0, shape=[16,16], steps=[16,16]}
    %next: f32[16,16] = mma %a, %b, %acc
    yield %next
  }
  store %out, %sum, %zero, %zero {steps=[16,16]}
})",
                   {true, true, true, false}),
      R"(kernel k_forward_mode(%0: array<f32,2>, %1: array<f32,2>, %2: array<f32,2>, %3: i32, %4: array<f32,2>, %5: array<f32,2>, %6: array<f32,2>) {
  %7: i32 = constant {dtype=i32, value=0}
  %8: i32 = constant {dtype=i32, value=1}
  %9: f32 = constant {dtype=f32, value=0.0}
  %10: f32[16,16] = broadcast %9 {shape=[16,16]}
  %11: f32 = constant {dtype=f32, value=0.0}
  %12: f32[16,16] = broadcast %11 {shape=[16,16]}
  %13: f32[16,16], %14: f32[16,16] = for %7, %3, %8, %10, %12 (%15: i32, %16: f32[16,16], %17: f32[16,16]) {
    %18: f32[16,16] = load %0, %7, %15 {pad=0.0, shape=[16,16], steps=[16,16]}
    %19: f32[16,16] = load %4, %7, %15 {pad=0.0, shape=[16,16], steps=[16,16]}
    %20: f32[16,16] = load %1, %15, %7 {pad=0.0, shape=[16,16], steps=[16,16]}
    %21: f32[16,16] = load %5, %15, %7 {pad=0.0, shape=[16,16], steps=[16,16]}
    %22: f32[16,16] = mma %18, %20, %16
    %23: f32[16,16] = mma %19, %20, %17
    %24: f32[16,16] = mma %18, %21, %23
    yield %22, %24
  }
  store %2, %13, %7, %7 {steps=[16,16]}
  store %6, %14, %7, %7 {steps=[16,16]}
}
)");
}

TEST(Forward, ALoopCarriesNoTangentOfADetachedTile) {
  EXPECT_EQ(
      derived_text(R"(kernel k(%x: array<f32,2>, %out: array<f32,1>, %n: i32) {
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  %start: f32 = constant {dtype=f32, value=0.0}
  %zeros: f32[4] = broadcast %start {shape=[4]}
  %sum: f32[4] = for %zero, %n, %one, %zeros (%k: i32, %before: f32[4]) {
    %row: array<f32,1> = index %x, %k
    %a: f32[4] = load %row, %zero {pad=0.0, shape=[4], steps=[4]}
    %more: f32[4] = add %before, %a
    %next: f32[4] = detach %more
    yield %next
  }
  store %out, %sum, %zero {steps=[4]}
})",
                   {true, true, false}),
      R"(kernel k_forward_mode(%0: array<f32,2>, %1: array<f32,1>, %2: i32, %3: array<f32,2>, %4: array<f32,1>) {
  %5: i32 = constant {dtype=i32, value=0}
  %6: i32 = constant {dtype=i32, value=1}
  %7: f32 = constant {dtype=f32, value=0.0}
  %8: f32[4] = broadcast %7 {shape=[4]}
  %9: f32[4] = for %5, %2, %6, %8 (%10: i32, %11: f32[4]) {
    %12: array<f32,1> = index %0, %10
    %13: array<f32,1> = index %3, %10
    %14: f32[4] = load %12, %5 {pad=0.0, shape=[4], steps=[4]}
    %15: f32[4] = load %13, %5 {pad=0.0, shape=[4], steps=[4]}
    %16: f32[4] = add %11, %14
    %17: f32[4] = detach %16
    yield %17
  }
  store %1, %9, %5 {steps=[4]}
  %18: f32 = constant {dtype=f32, value=0.0}
  %19: f32[4] = broadcast %18 {shape=[4]}
  store %4, %19, %5 {steps=[4]}
}
)");
}

TEST(Forward, AnOpWithoutADerivativeIsNamed) {
  EXPECT_EQ(error_of([] {
              derived(R"(kernel k(%x: array<f32,1>, %out: array<i32,1>) {
  %i: i32 = bid {axis=0}
  %a: f32[4] = load %x, %i {pad=0.0, shape=[4], steps=[4]}
  %b: i32[4] = bitcast %a {dtype=i32}
  store %out, %b, %i {steps=[4]}
})",
                      {true, false});
            }),
            "bitcast: has no forward-mode derivative; use reverse mode, or detach its operands");
}

TEST(Forward, AnArrayThatIsReadAgainMustBeActive) {
  EXPECT_EQ(
      error_of([] {
        derived(R"(kernel k(%x: array<f32,1>, %out: array<f32,1>) {
  %i: i32 = bid {axis=0}
  %a: f32[4] = load %x, %i {pad=0.0, shape=[4], steps=[4]}
  store %out, %a, %i {steps=[4]}
  %b: f32[4] = load %out, %i {pad=0.0, shape=[4], steps=[4]}
  store %out, %b, %i {steps=[4]}
})",
                {true, false});
      }),
      "store: the array is read and written and has no tangent, but the tile has one; make the array active");
}

// A kernel of arrays of f64 that it reads and writes in one block.
struct Case {
  const char* name;
  const char* text;
  std::vector<std::vector<int64_t>> arrays;
  double low = 0.2, high = 1.8;
};

using Arrays = std::vector<TestArray>;
Arrays run(const TextKernel& kernel, Arrays arrays) {
  launch(kernel, {2}, arrays);
  return arrays;
}

class ForwardCase : public testing::TestWithParam<Case> {};

TEST_P(ForwardCase, EqualsFiniteDifferences) {
  const Case& of = GetParam();
  Arrays data, tangents;
  for (const auto& sizes : of.arrays) {
    const auto seed = static_cast<unsigned>(data.size());
    data.push_back(random_array(sizes, seed, of.low, of.high));
    tangents.push_back(random_array(sizes, seed + 100));
  }
  const TextKernel kernel(of.text);
  const TextKernel tangent_kernel(print(derived(of.text, std::vector<bool>(data.size(), true))));
  Arrays both = data;
  both.insert(both.end(), tangents.begin(), tangents.end());
  both = run(tangent_kernel, both);

  constexpr double step = 1e-6;
  Arrays above = data, below = data;
  for (size_t i = 0; i < data.size(); ++i)
    for (size_t j = 0; j < data[i].count(); ++j) {
      above[i].values[j] += step * tangents[i].values[j];
      below[i].values[j] -= step * tangents[i].values[j];
    }
  const Arrays values = run(kernel, data);
  above = run(kernel, above), below = run(kernel, below);
  for (size_t i = 0; i < data.size(); ++i)
    for (size_t j = 0; j < data[i].count(); ++j) {
      EXPECT_EQ(both[i].values[j], values[i].values[j]);
      EXPECT_NEAR(both[data.size() + i].values[j], (above[i].values[j] - below[i].values[j]) / (2 * step),
                  1e-7)
          << i << ' ' << j;
    }
}

// Two tiles of 8, the second of which passes the end of 13 elements.
#define VECTORS(BODY)                                                    \
  "kernel k(%x: array<f64,1>, %y: array<f64,1>, %out: array<f64,1>) {\n" \
  "  %i: i32 = bid {axis=0}\n"                                           \
  "  %a: f64[8] = load %x, %i {pad=0.5, shape=[8], steps=[8]}\n"         \
  "  %b: f64[8] = load %y, %i {pad=0.5, shape=[8], steps=[8]}\n" BODY    \
  "  store %out, %r, %i {steps=[8]}\n"                                   \
  "}"
const std::vector<std::vector<int64_t>> three_vectors{{13}, {13}, {13}};

const Case cases[] = {
    {"Elementwise",
     VECTORS("  %c: f64[8] = div %a, %b\n"
             "  %d: f64[8] = exp %c\n"
             "  %e: f64[8] = tanh %b\n"
             "  %f: f64[8] = fma %d, %e, %a\n"
             "  %g: f64[8] = atan2 %f, %a\n"
             "  %r: f64[8] = pow %b, %g\n"),
     three_vectors},
    {"Selection",
     VECTORS("  %c: bool[8] = lt %a, %b\n"
             "  %d: f64[8] = mul %a, %a\n"
             "  %e: f64[8] = where %c, %d, %b\n"
             "  %f: f64[8] = maximum %e, %a\n"
             "  %g: f64[8] = floor %b\n"
             "  %r: f64[8] = mul %f, %g\n"),
     three_vectors},
    {"Reductions",
     VECTORS("  %c: f64 = reduce_sum %a {axes=[0]}\n"
             "  %d: f64 = reduce_prod %b {axes=[0]}\n"
             "  %e: f64 = reduce_max %a {axes=[0]}\n"
             "  %f: f64 = reduce_min %b {axes=[0]}\n"
             "  %g: f64 = mul %c, %d\n"
             "  %h: f64 = fma %e, %f, %g\n"
             "  %r: f64[8] = broadcast %h {shape=[8]}\n"),
     three_vectors},
    {"CombineRegion",
     VECTORS("  %c: f64, %d: f64 = reduce %a, %b {axis=0} (%p: f64, %q: f64, %s: f64, %t: f64) {\n"
             "    %u: f64 = mul %p, %s\n"
             "    %v: f64 = fma %q, %s, %t\n"
             "    yield %u, %v\n"
             "  }\n"
             "  %e: f64 = mul %c, %d\n"
             "  %r: f64[8] = broadcast %e {shape=[8]}\n"),
     three_vectors},
    {"Scan",
     VECTORS("  %r: f64[8] = scan %a {axis=0, reverse=1} (%p: f64, %q: f64) {\n"
             "    %u: f64 = mul %p, %q\n"
             "    yield %u\n"
             "  }\n"),
     three_vectors},
    {"Branches",
     VECTORS("  %s: f64 = reduce_sum %a {axes=[0]}\n"
             "  %t: f64 = reduce_sum %b {axes=[0]}\n"
             "  %c: bool = lt %s, %t\n"
             "  %r: f64[8] = if %c () {\n"
             "    %u: f64[8] = mul %a, %b\n"
             "    yield %u\n"
             "  } () {\n"
             "    %k: f64 = constant {dtype=f64, value=3.0}\n"
             "    %v: f64[8] = broadcast %k {shape=[8]}\n"
             "    yield %v\n"
             "  }\n"),
     three_vectors},
    {"LoopWithBreak",
     VECTORS("  %n: i32 = constant {dtype=i32, value=0}\n"
             "  %one: i32 = constant {dtype=i32, value=1}\n"
             "  %three: i32 = constant {dtype=i32, value=3}\n"
             "  %start: f64 = constant {dtype=f64, value=1.0}\n"
             "  %first: f64[8] = broadcast %start {shape=[8]}\n"
             "  %j: i32, %r: f64[8] = loop %n, %first (%m: i32, %acc: f64[8]) {\n"
             "    %stop: bool = ge %m, %three\n"
             "    if %stop () {\n"
             "      break %m, %acc\n"
             "    } () {\n"
             "      yield\n"
             "    }\n"
             "    %next: f64[8] = fma %acc, %a, %b\n"
             "    %m1: i32 = add %m, %one\n"
             "    continue %m1, %next\n"
             "  }\n"),
     three_vectors},
    {"Shapes",
     VECTORS("  %c: f64[2,4] = reshape %a {shape=[2,4]}\n"
             "  %d: f64[4,2] = permute %c {axes=[1,0]}\n"
             "  %e: f64[4,2] = reshape %b {shape=[4,2]}\n"
             "  %f: f64[8,2] = cat %d, %e {axis=0}\n"
             "  %one: i32 = constant {dtype=i32, value=1}\n"
             "  %zero: i32 = constant {dtype=i32, value=0}\n"
             "  %g: f64[4,2] = extract %f, %one, %zero {shape=[4,2]}\n"
             "  %h: f64[4,2] = mul %g, %d\n"
             "  %j: f64[8,2] = insert %f, %h, %zero, %zero\n"
             "  %k: f64[8] = reduce_sum %j {axes=[1]}\n"
             "  %r: f64[8] = reshape %k {shape=[8]}\n"),
     three_vectors},
    {"Products",
     R"(kernel k(%x: array<f64,2>, %y: array<f64,2>, %out: array<f64,2>) {
  %i: i32 = bid {axis=0}
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  %two: i32 = constant {dtype=i32, value=2}
  %none: f64 = constant {dtype=f64, value=0.0}
  %start: f64[4,4] = broadcast %none {shape=[4,4]}
  %sum: f64[4,4] = for %zero, %two, %one, %start (%k: i32, %acc: f64[4,4]) {
    %a: f64[4,4] = load %x, %i, %k {pad=0.0, shape=[4,4], steps=[4,4]}
    %b: f64[4,4] = load %y, %k, %zero {pad=0.0, shape=[4,4], steps=[4,4]}
    %next: f64[4,4] = mma %a, %b, %acc
    yield %next
  }
  %e: f64[4,4] = sigmoid %sum
  store %out, %e, %i, %zero {steps=[4,4]}
})",
     {{7, 7}, {7, 3}, {7, 3}}},
    {"ViewsAndSums",
     R"(kernel k(%x: array<f64,2>, %y: array<f64,2>, %out: array<f64,2>) {
  %i: i32 = bid {axis=0}
  %zero: i32 = constant {dtype=i32, value=0}
  %three: i32 = constant {dtype=i32, value=3}
  %turned: array<f64,2> = permute_array %x {axes=[1,0]}
  %part: array<f64,2> = slice %turned, %zero, %three {axis=1}
  %row: array<f64,1> = index %part, %i
  %a: f64[4] = load %row, %zero {pad=0.0, shape=[4], steps=[4]}
  %out_row: array<f64,1> = index %out, %i
  %c: f64[4] = sin %a
  add_tile %out_row, %c, %zero {steps=[4]}
})",
     {{5, 4}, {4, 5}, {3, 5}}},
    {"Elements",
     R"(kernel k(%x: array<f64,1>, %y: array<f64,1>, %out: array<f64,1>) {
  %n: i32[4] = arange {dtype=i32, size=4}
  %three: i32 = constant {dtype=i32, value=3}
  %threes: i32[4] = broadcast %three {shape=[4]}
  %at: i32[4] = mul %n, %threes
  %a: f64[4] = gather %x, %at {pad=2.0}
  %b: f64[4] = gather %y, %n {pad=2.0}
  %c: f64[4] = mul %a, %b
  scatter %out, %c, %at
})",
     {{8}, {3}, {9}}},
};

INSTANTIATE_TEST_SUITE_P(Kernels, ForwardCase, testing::ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tile
