// Tests which extremes results do not depend on.
#include "derive/invariance.h"

#include "gradients.h"
#include "ir/walk.h"

namespace tile {
namespace {

// body: of a kernel that stores %20: f64[2,8], or %20: f64[2] if `rows`; %5 is a tile, %8 its maxima in each
// place.
std::string kernel(const std::string& body, bool rows) {
  return std::string("kernel shifted(%0: array<f64,2>, %1: array<f64,") + (rows ? "1" : "2") +
         ">) {\n"
         "  %2: i32 = bid {axis=0}\n"
         "  %3: i32 = constant {dtype=i32, value=0}\n"
         "  %5: f64[2,8] = load %0, %2, %3 {pad=-inf, shape=[2,8], steps=[2,8]}\n"
         "  %6: f64[2] = reduce_max %5 {axes=[1]}\n"
         "  %7: f64[2,1] = reshape %6 {shape=[2,1]}\n"
         "  %8: f64[2,8] = broadcast %7 {shape=[2,8]}\n" +
         body +
         (rows ? "  store %1, %20, %2 {steps=[2]}\n}\n" : "  store %1, %20, %2, %3 {steps=[2,8]}\n}\n");
}
bool cancels(const std::string& body, bool rows = false) {
  const std::string text = kernel(body, rows);
  check_gradients(text, {2, 1, 1},
                  {random_array({4, 5}, 1), rows ? TestArray::of({4}) : TestArray::of({4, 5})});
  return !invariant_extremes(parse(text)).empty();
}

constexpr const char* sums =
    "  %9: f64[2,8] = sub %5, %8\n"
    "  %10: f64[2,8] = exp %9\n"
    "  %11: f64[2] = reduce_sum %10 {axes=[1]}\n"
    "  %12: f64[2,1] = reshape %11 {shape=[2,1]}\n"
    "  %13: f64[2,8] = broadcast %12 {shape=[2,8]}\n";

TEST(Invariance, TheMaximumOfASoftmax) {
  EXPECT_TRUE(cancels(std::string(sums) + "  %20: f64[2,8] = div %10, %13\n"));
}
TEST(Invariance, TheMaximumOfALogarithmOfSums) {
  EXPECT_TRUE(cancels(std::string(sums) + "  %14: f64[2] = log %11\n"
                                          "  %20: f64[2] = add %14, %6\n",
                      true));
}
TEST(Invariance, TheMaximumInPowersOfTwo) {
  EXPECT_TRUE(
      cancels("  %9: f64[2,8] = sub %5, %8\n"
              "  %14: f64 = constant {dtype=f64, value=1.5}\n"
              "  %15: f64[2,8] = broadcast %14 {shape=[2,8]}\n"
              "  %16: f64[2,8] = mul %9, %15\n"
              "  %10: f64[2,8] = exp2 %16\n"
              "  %11: f64[2] = reduce_sum %10 {axes=[1]}\n"
              "  %12: f64[2,1] = reshape %11 {shape=[2,1]}\n"
              "  %13: f64[2,8] = broadcast %12 {shape=[2,8]}\n"
              "  %20: f64[2,8] = div %10, %13\n"));
}
TEST(Invariance, WhatIsLeftOfAMaximumHasAGradient) {
  EXPECT_FALSE(cancels(std::string(sums) + "  %20: f64[2] = log %11\n", true));
  EXPECT_FALSE(cancels("  %20: f64[2,8] = add %5, %8\n"));
  // A number beside the exponentials does not scale with them.
  EXPECT_FALSE(cancels(std::string(sums) + "  %14: f64 = constant {dtype=f64, value=1.0}\n"
                                           "  %15: f64[2,8] = broadcast %14 {shape=[2,8]}\n"
                                           "  %16: f64[2,8] = add %13, %15\n"
                                           "  %20: f64[2,8] = div %10, %16\n"));
}

TEST(Invariance, NoGradientOfTheMaximumIsComputed) {
  const Derived derived =
      derived_kernel(kernel(std::string(sums) + "  %20: f64[2,8] = div %10, %13\n", false));
  // It would go to the elements that equal the maximum.
  walk(derived.function.body(), [](const Op& op) {
    for (const Value* value : op.operands) {
      while (value->definition && (value->definition->is("broadcast") || value->definition->is("reshape")))
        value = value->definition->operands[0];
      const bool is_maximum = value->definition && value->definition->is("reduce_max");
      EXPECT_FALSE(op.is("eq") && is_maximum);
    }
  });
}

}  // namespace
}  // namespace tile
