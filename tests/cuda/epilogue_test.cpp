// Tests the pass that divides epilogues into panels: its text before and after, and what kernels compute.
#include "cuda/async/epilogue.h"

#include <gtest/gtest.h>

#include "cuda/async_cases.h"
#include "ir/print.h"
#include "ir/verify.h"

namespace tile::cuda {
namespace {

// An epilogue of a bias of each column, a residual and a scale of each row, whose store replaces the
// residual.
const std::string epilogue =
    product_and(R"(  %column: f32[8,1] = load %a, %i, %0 {pad=0.0, shape=[8,1], steps=[8,1]}
  %columns: f32[8,128] = broadcast %column {shape=[8,128]}
  %p: f32[8,128] = mul %s, %columns
  %u: f32[8,128] = load %c, %i, %j {pad=0.0, shape=[8,128], steps=[8,128]}
  %e: f32[8,128] = add %p, %u
  store %c, %e, %i, %j {steps=[8,128]}
)",
                128);

// Returns the text of a kernel after the pass.
std::string divided(const std::string& kernel) {
  Function function = parse(kernel);
  divide_epilogues(function);
  verify(function, "divide_epilogues");
  return print(function, false);
}

TEST(Epilogue, IsRepeatedForPanels) {
  const std::string text = divided(epilogue);
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

TEST(Epilogue, ComputesTheSame) { EXPECT_EQ(run_product(divided(epilogue)), run_product(epilogue)); }

// A store of a tile that no sum is part of, beside one of a sum with the same tile.
const std::string two_stores =
    product_and(R"(  %u: f32[8,128] = load %a, %i, %j {pad=0.0, shape=[8,128], steps=[8,128]}
  %v: f32[8,128] = abs %u
  %e: f32[8,128] = mul %s, %v
  store %b, %e, %i, %j {steps=[8,128]}
  %q: f32[8,128] = mul %v, %u
  store %c, %q, %i, %j {steps=[8,128]}
)",
                128);

TEST(Epilogue, StoresOfOtherTilesAreRepeatedToo) {
  const std::string text = divided(two_stores);
  EXPECT_EQ(text.substr(text.find("  %17"), text.find("  %30") - text.find("  %17")),
            R"(  %17: i32 = constant {dtype=i32, value=0}
  %18: i32 = constant {dtype=i32, value=0}
  %19: f32[8,64] = extract %11, %17, %18 {panel=0, shape=[8,64]}
  %20: i64 = astype %5 {dtype=i64}
  %21: i64 = constant {dtype=i64, value=2}
  %22: i64 = mul %20, %21
  %23: f32[1,64] = load %2, %6, %22 {pad=0.0, panel=0, shape=[1,64], steps=[1,64]}
  %24: f32[8,64] = broadcast %23 {shape=[8,64]}
  %25: f32[8,64] = add %19, %24
  %26: f32[8,64] = load %0, %4, %22 {pad=0.0, panel=0, shape=[8,64], steps=[8,64]}
  %27: f32[8,64] = abs %26
  %28: f32[8,64] = mul %25, %27
  store %1, %28, %4, %22 {panel=0, steps=[8,64]}
  %29: f32[8,64] = mul %27, %26
  store %3, %29, %4, %22 {panel=0, steps=[8,64]}
)");
  EXPECT_EQ(text.find("[8,128]", text.find("  %17")), std::string::npos) << text;
  EXPECT_EQ(run_product(text), run_product(two_stores));
}

// Stores that cannot be repeated stay where they are, and the others are repeated.
TEST(Epilogue, OtherStoresMayStayWhole) {
  const auto whole = [](const std::string& from, const std::string& to) {
    EXPECT_NE(two_stores.find(from), std::string::npos) << from;
    const std::string text = divided(with(two_stores, from, to));
    EXPECT_NE(text.find("{panel=1, steps=[8,64]}"), std::string::npos) << text;
    return text.find(",128]}", text.find("yield")) != std::string::npos;
  };
  EXPECT_FALSE(whole("mul %v, %u", "sub %v, %u"));
  // Tiles of other rows would be stored between those of this one.
  EXPECT_TRUE(whole("store %c, %q, %i, %j {steps=[8,128]}", "store %c, %q, %i, %j {steps=[4,128]}"));
  // The array is stored twice.
  EXPECT_TRUE(whole("store %c, %q", "store %b, %q"));
  // Its line comes before that of the sum.
  const std::string first =
      with(two_stores, "  %zs:", R"(  %w: f32[8,128] = load %a, %j, %i {pad=0.0, shape=[8,128], steps=[8,128]}
  store %bias, %w, %i, %j {steps=[8,128]}
  %zs:)");
  const std::string text = divided(first);
  EXPECT_NE(text.find("{steps=[8,128]}"), std::string::npos);
  EXPECT_NE(text.find("{panel=1, steps=[8,64]}"), std::string::npos);
}

// Kernels whose epilogue cannot be repeated stay as they are.
TEST(Epilogue, StaysWholeIfPanelsWouldDiffer) {
  const auto changed = [](const std::string& from, const std::string& to) {
    EXPECT_NE(epilogue.find(from), std::string::npos) << from;
    const std::string kernel = with(epilogue, from, to);
    return divided(kernel) != print(parse(kernel), false);
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

}  // namespace
}  // namespace tile::cuda
