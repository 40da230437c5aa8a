// Tests sums that give up factors which do not change along the summed axes.
#include "derive/factored_sums.h"

#include "gradients.h"

namespace tile {
namespace {

// Returns the ops of a kernel's body that the pass leaves, with dead ones, or an empty string if nothing
// changed.
std::string factored(const std::string& body) {
  Function function = parse(
      "kernel sums(%0: array<f32,2>, %1: array<f32,2>, %2: array<f32,1>) {\n"
      "  %3: i32 = constant {dtype=i32, value=0}\n"
      "  %4: f32[2,8] = load %0, %3, %3 {pad=0.0, shape=[2,8], steps=[2,8]}\n"
      "  %5: f32[2,8] = load %1, %3, %3 {pad=0.0, shape=[2,8], steps=[2,8]}\n"
      "  %6: f32[2] = reduce_sum %4 {axes=[1]}\n"
      "  %7: f32[2,1] = reshape %6 {shape=[2,1]}\n"
      "  %8: f32[2,8] = broadcast %7 {shape=[2,8]}\n" +
      body + "}\n");
  if (!factor_sums(function)) return "";
  const std::string text = print(function, false), before = "{shape=[2,8]}\n";
  return text.substr(text.find(before) + before.size());
}

TEST(FactoredSums, AFactorMultipliesTheSum) {
  EXPECT_EQ(factored("  %9: f32[2,8] = mul %5, %8\n"
                     "  %10: f32[2,8] = neg %9\n"
                     "  %11: f32[2] = reduce_sum %10 {axes=[1]}\n"
                     "  store %2, %11, %3 {steps=[2]}\n"),
            "  %9: f32[2,8] = mul %5, %8\n"
            "  %10: f32[2,8] = neg %9\n"
            "  %11: f32[2] = reduce_sum %5 {axes=[1]}\n"
            "  %12: f32[2] = reshape %7 {shape=[2]}\n"
            "  %13: f32[2] = mul %11, %12\n"
            "  %14: f32[2] = neg %13\n"
            "  store %2, %14, %3 {steps=[2]}\n"
            "}\n");
}

TEST(FactoredSums, ADivisorDividesTheSumOfAProduct) {
  EXPECT_EQ(factored("  %9: f32[2,8] = div %4, %8\n"
                     "  %10: f32[2,8] = mul %5, %9\n"
                     "  %11: f32[2] = reduce_sum %10 {axes=[1]}\n"
                     "  store %2, %11, %3 {steps=[2]}\n"),
            "  %9: f32[2,8] = div %4, %8\n"
            "  %10: f32[2,8] = mul %5, %9\n"
            "  %11: f32[2,8] = mul %5, %4\n"
            "  %12: f32[2] = reduce_sum %11 {axes=[1]}\n"
            "  %13: f32[2] = reshape %7 {shape=[2]}\n"
            "  %14: f32[2] = div %12, %13\n"
            "  store %2, %14, %3 {steps=[2]}\n"
            "}\n");
}

TEST(FactoredSums, TermsAreSummedApartIfTheyNeedNotWait) {
  const std::string sums = factored(
      "  %9: f32[2,8] = mul %5, %8\n"
      "  %10: f32[2,8] = sub %4, %9\n"
      "  %11: f32[2] = reduce_sum %10 {axes=[1]}\n"
      "  store %2, %11, %3 {steps=[2]}\n");
  EXPECT_NE(sums.find("reduce_sum %4 {axes=[1]}\n"), sums.npos) << sums;
  EXPECT_NE(sums.find("reduce_sum %5 {axes=[1]}\n"), sums.npos) << sums;
}

TEST(FactoredSums, OthersStay) {
  // The factor changes along the summed axis.
  EXPECT_EQ(factored("  %9: f32[2,8] = mul %5, %8\n"
                     "  %10: f32[8] = reduce_sum %9 {axes=[0]}\n"
                     "  store %2, %10, %3 {steps=[8]}\n"),
            "");
  // A difference of a tile and a mean has no factor: the sums of both would cancel out.
  EXPECT_EQ(factored("  %9: f32[2,8] = sub %5, %8\n"
                     "  %10: f32[2] = reduce_sum %9 {axes=[1]}\n"
                     "  store %2, %10, %3 {steps=[2]}\n"),
            "");
}

// The gradient of a layer norm waits for two rounds of sums, as its statistics do.
TEST(FactoredSums, GradientsOfALayerNorm) {
  check_gradients(R"(kernel layer(%0: array<f64,2>, %1: array<f64,1>, %2: array<f64,2>) {
  %3: i32 = bid {axis=0}
  %4: i32 = constant {dtype=i32, value=0}
  %5: f64[2,8] = load %0, %3, %4 {pad=0.0, shape=[2,8], steps=[2,8]}
  %6: f64[2] = reduce_sum %5 {axes=[1]}
  %7: f64 = constant {dtype=f64, value=8.0}
  %8: f64[2] = broadcast %7 {shape=[2]}
  %9: f64[2] = div %6, %8
  %10: f64[2,1] = reshape %9 {shape=[2,1]}
  %11: f64[2,8] = broadcast %10 {shape=[2,8]}
  %12: f64[2,8] = sub %5, %11
  %13: f64[2,8] = mul %12, %12
  %14: f64[2] = reduce_sum %13 {axes=[1]}
  %15: f64[2] = rsqrt %14
  %16: f64[2,1] = reshape %15 {shape=[2,1]}
  %17: f64[2,8] = broadcast %16 {shape=[2,8]}
  %18: f64[2,8] = mul %12, %17
  %19: f64[8] = load %1, %4 {pad=0.0, shape=[8], steps=[8]}
  %20: f64[1,8] = reshape %19 {shape=[1,8]}
  %21: f64[2,8] = broadcast %20 {shape=[2,8]}
  %22: f64[2,8] = mul %18, %21
  store %2, %22, %3, %4 {steps=[2,8]}
}
)",
                  {3, 1, 1}, {random_array({6, 8}, 1), random_array({8}, 2), TestArray::of({6, 8})});
}

}  // namespace
}  // namespace tile
