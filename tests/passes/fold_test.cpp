// Tests that constants are evaluated in their dtype.
#include "pass_text.h"

namespace tile {
namespace {

TEST(Fold, ScalarsAndTiles) {
  EXPECT_EQ(after("fold", R"(kernel k(%x: array<f32,1>, %y: array<i8,1>) {
  %0: i32 = bid {axis=0}
  %1: f32 = constant {dtype=f32, value=0.1}
  %2: f32[4] = broadcast %1 {shape=[4]}
  %3: f32[4] = add %2, %2
  %4: f32[4] = sqrt %3
  store %x, %4, %0 {steps=[4]}
  %5: i8 = constant {dtype=i8, value=100}
  %6: i8 = add %5, %5
  %7: i8[4] = broadcast %6 {shape=[4]}
  store %y, %7, %0 {steps=[4]}
})"),
            R"(kernel k(%0: array<f32,1>, %1: array<i8,1>) {
  %2: i32 = bid {axis=0}
  %3: f32 = constant {dtype=f32, value=0.1}
  %4: f32[4] = broadcast %3 {shape=[4]}
  %5: f32 = constant {dtype=f32, value=0.20000000298023224}
  %6: f32[4] = broadcast %5 {shape=[4]}
  %7: f32 = constant {dtype=f32, value=0.4472135901451111}
  %8: f32[4] = broadcast %7 {shape=[4]}
  store %0, %8, %2 {steps=[4]}
  %9: i8 = constant {dtype=i8, value=100}
  %10: i8 = constant {dtype=i8, value=-56}
  %11: i8[4] = broadcast %10 {shape=[4]}
  store %1, %11, %2 {steps=[4]}
}
)");
}

TEST(Fold, CastsAndComparisons) {
  EXPECT_EQ(after("fold", R"(kernel k(%x: array<bool,1>, %y: array<f16,1>) {
  %0: i32 = bid {axis=0}
  %1: f32 = constant {dtype=f32, value=nan}
  %2: f32 = constant {dtype=f32, value=1e+10}
  %3: bool = lt %1, %2
  %4: bool[2] = broadcast %3 {shape=[2]}
  store %x, %4, %0 {steps=[2]}
  %5: f16 = astype %2 {dtype=f16}
  %6: i32 = astype %2 {dtype=i32}
  %7: f16 = astype %6 {dtype=f16}
  %8: f16 = add %5, %7
  %9: f16[2] = broadcast %8 {shape=[2]}
  store %y, %9, %0 {steps=[2]}
})"),
            R"(kernel k(%0: array<bool,1>, %1: array<f16,1>) {
  %2: i32 = bid {axis=0}
  %3: f32 = constant {dtype=f32, value=nan}
  %4: f32 = constant {dtype=f32, value=1e+10}
  %5: bool = constant {dtype=bool, value=0}
  %6: bool[2] = broadcast %5 {shape=[2]}
  store %0, %6, %2 {steps=[2]}
  %7: f16 = constant {dtype=f16, value=inf}
  %8: i32 = constant {dtype=i32, value=2147483647}
  %9: f16 = constant {dtype=f16, value=inf}
  %10: f16 = constant {dtype=f16, value=inf}
  %11: f16[2] = broadcast %10 {shape=[2]}
  store %1, %11, %2 {steps=[2]}
}
)");
}

// Returns the value of a constant cast to another dtype.
std::string cast_of(const std::string& from, const std::string& value, const std::string& to) {
  const std::string text =
      after("fold", "kernel k(%x: array<" + to + ",1>) {\n  %0: i32 = bid {axis=0}\n  %1: " + from +
                        " = constant {dtype=" + from + ", value=" + value + "}\n  %2: " + to +
                        " = astype %1 {dtype=" + to + "}\n  %3: " + to +
                        "[2] = broadcast %2 {shape=[2]}\n  store %x, %3, %0 {steps=[2]}\n}");
  const std::string start = "constant {dtype=" + to + ", value=";
  const size_t at = text.rfind(start) + start.size();
  return text.substr(at, text.find('}', at) - at);
}

// Like at run time, an integer is rounded once to f32, and narrower dtypes are converted by way of f32.
TEST(Fold, CastsRoundAsTheTargetDoes) {
  EXPECT_EQ(cast_of("f64", "1.0004882812509095", "f16"), "1.0");  // near 1 + 2^-11, a midpoint
  EXPECT_EQ(cast_of("f64", "1.0039062500009095", "bf16"), "1.0");
  EXPECT_EQ(cast_of("f64", "1.0625000000009095", "f8e4m3"), "1.0");
  EXPECT_EQ(cast_of("i64", "1152921573326323713", "f32"), "1152921642045800448.0");
  EXPECT_EQ(cast_of("i64", "1077936129", "bf16"), "1073741824.0");
  EXPECT_EQ(cast_of("u64", "-1", "f32"), "18446744073709551616.0");
  EXPECT_EQ(cast_of("f32", "500.0", "f8e4m3"), "448.0");
  EXPECT_EQ(cast_of("f32", "-inf", "f8e4m3"), "-448.0");
  EXPECT_EQ(cast_of("f32", "nan", "f8e4m3"), "nan");
  EXPECT_EQ(cast_of("f32", "1e+10", "f8e5m2"), "inf");
}

TEST(Fold, RoundedFunctionsStay) {
  EXPECT_EQ(after("fold", R"(kernel k(%x: array<f32,1>) {
  %0: i32 = bid {axis=0}
  %1: f32 = constant {dtype=f32, value=0.5}
  %2: f32 = exp %1
  %3: f32[2] = broadcast %2 {shape=[2]}
  store %x, %3, %0 {steps=[2]}
})"),
            R"(kernel k(%0: array<f32,1>) {
  %1: i32 = bid {axis=0}
  %2: f32 = constant {dtype=f32, value=0.5}
  %3: f32 = exp %2
  %4: f32[2] = broadcast %3 {shape=[2]}
  store %0, %4, %1 {steps=[2]}
}
)");
}

}  // namespace
}  // namespace tile
