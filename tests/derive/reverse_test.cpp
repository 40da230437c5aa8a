// Tests derived kernels: their text, how gradients are written, and what is refused.
#include "derive/reverse.h"

#include "error_text.h"
#include "gradients.h"

namespace tile {
namespace {

std::string derived(std::string_view text) { return print(derived_kernel(text).function, false); }
std::string how(std::string_view text, Wanted wanted) {
  const Function kernel = parse(text);
  return how_text(reverse(kernel, {wanted}, differentiable_parameters(kernel).results).gradients.at(0));
}

constexpr std::string_view square = R"(kernel square(%0: array<f32,1>, %1: array<f32,1>) {
  %2: i32 = bid {axis=0}
  %3: f32[8] = load %0, %2 {pad=0.0, shape=[8], steps=[8]}
  %4: f32[8] = mul %3, %3
  store %1, %4, %2 {steps=[8]}
}
)";

TEST(Reverse, ElementwiseKernel) {
  EXPECT_EQ(
      derived(square),
      R"(kernel square_backward(%0: array<f32,1>, %1: array<f32,1>, %2: array<f32,1>, %3: array<f32,1>) {
  %4: i32 = bid {axis=0}
  %5: f32[8] = load %0, %4 {pad=0.0, shape=[8], steps=[8]}
  %6: f32[8] = load %2, %4 {pad=0.0, shape=[8], steps=[8]}
  %7: f32[8] = mul %6, %5
  %8: f32[8] = mul %6, %5
  %9: f32[8] = add %7, %8
  store %3, %9, %4 {steps=[8]}
}
)");
}

TEST(Reverse, WhatIsDetachedPassesNoGradientOn) {
  EXPECT_EQ(derived(R"(kernel part(%0: array<f32,1>, %1: array<f32,1>) {
  %2: i32 = bid {axis=0}
  %3: f32[8] = load %0, %2 {pad=0.0, shape=[8], steps=[8]}
  %4: f32[8] = detach %3
  %5: f32[8] = mul %3, %4
  store %1, %5, %2 {steps=[8]}
}
)"),
            R"(kernel part_backward(%0: array<f32,1>, %1: array<f32,1>, %2: array<f32,1>, %3: array<f32,1>) {
  %4: i32 = bid {axis=0}
  %5: f32[8] = load %0, %4 {pad=0.0, shape=[8], steps=[8]}
  %6: f32[8] = detach %5
  %7: f32[8] = load %2, %4 {pad=0.0, shape=[8], steps=[8]}
  %8: f32[8] = mul %7, %6
  store %3, %8, %4 {steps=[8]}
}
)");
}

TEST(Reverse, GradientsOfOneBlockAreStored) { EXPECT_EQ(how(square, {0}), "stored"); }
TEST(Reverse, AGradientThatHoldsSomethingIsAddedTo) {
  EXPECT_EQ(how(square, {0, Sharing::partial, true}), "added up in its block");
}

constexpr std::string_view scaled_rows =
    R"(kernel scaled(%0: array<f32,2>, %1: array<f32,1>, %2: array<f32,2>) {
  %3: i32 = bid {axis=0}
  %4: i32 = constant {dtype=i32, value=0}
  %5: f32[1,8] = load %0, %3, %4 {pad=0.0, shape=[1,8], steps=[1,8]}
  %6: f32[8] = load %1, %4 {pad=0.0, shape=[8], steps=[8]}
  %7: f32[1,8] = reshape %6 {shape=[1,8]}
  %8: f32[1,8] = mul %5, %7
  store %2, %8, %3, %4 {steps=[1,8]}
}
)";
TEST(Reverse, GradientsOfManyBlocksAreSummedOrAtomic) {
  EXPECT_EQ(how(scaled_rows, {0}), "stored");
  EXPECT_EQ(how(scaled_rows, {1}), "summed over grid axis 0");
  EXPECT_EQ(how(scaled_rows, {1, Sharing::atomic}), "added by atomics");
}

// Returns a kernel of 1-d arrays that loads 8 elements of %0 at `load`, and stores them at `store`.
std::string with(std::string_view scalars, std::string_view load, std::string_view store) {
  return str("kernel k(%0: array<f32,1>, %1: array<f32,1>, %2: i32) {\n  %b: i32 = bid {axis=0}\n", scalars,
             "  %x: f32[8] = load %0, ", load, " {pad=0.0, shape=[8], steps=[8]}\n  store %1, %x, ", store,
             " {steps=[8]}\n}\n");
}
TEST(Reverse, StoresThatBlocksShareAreRefused) {
  EXPECT_EQ(
      error_of([&] { derived(with("", "%b", "%2")); }),
      "store: has no derivative: blocks along axis 0 of the grid may store the same elements; the index must "
      "determine the block");
}

TEST(Reverse, IndexArithmeticThatDeterminesTheBlock) {
  for (const char* scalars :
       {"  %c: i32 = constant {dtype=i32, value=3}\n  %m: i32 = mul %b, %c\n  %i: i32 = add %m, %2\n",
        "  %c: i32 = constant {dtype=i32, value=4}\n  %q: i32 = floordiv %b, %c\n  %r: i32 = mod %b, %c\n"
        "  %m: i32 = mul %q, %c\n  %i: i32 = add %m, %r\n"})
    EXPECT_EQ(how(with(scalars, "%b", "%i"), {0}), "stored") << scalars;
  EXPECT_NE(
      error_of([&] {
        derived(with("  %c: i32 = constant {dtype=i32, value=4}\n  %i: i32 = floordiv %b, %c\n", "%b", "%i"));
      }),
      "");
}

TEST(Reverse, PrimitivesWithoutADerivativeAreNamed) {
  EXPECT_EQ(
      error_of([&] {
        derived(R"(kernel k(%0: array<f32,1>, %1: array<f32,1>) {
  %2: i32 = bid {axis=0}
  %3: f32[8] = load %0, %2 {pad=0.0, shape=[8], steps=[8]}
  %4: i32[8] = bitcast %3 {dtype=i32}  // user.py:7
  %5: f32[8] = bitcast %4 {dtype=f32}  // user.py:8
  store %1, %5, %2 {steps=[8]}
}
)");
      }),
      "user.py:7: bitcast: has no derivative; bits of a number do not change continuously; use arithmetic");
}

// The maximum passes nothing to the row. The derived kernel keeps `detach` for its own derivatives.
TEST(Reverse, DetachedTilesAreConstants) {
  EXPECT_EQ(derived(R"(kernel k(%0: array<f32,2>, %1: array<f32,2>) {
  %2: i32 = bid {axis=0}
  %3: i32 = constant {dtype=i32, value=0}
  %4: f32[1,8] = load %0, %2, %3 {pad=0.0, shape=[1,8], steps=[1,8]}
  %5: f32[1] = reduce_max %4 {axes=[1]}
  %6: f32[1] = detach %5
  %7: f32[1,1] = reshape %6 {shape=[1,1]}
  %8: f32[1,8] = broadcast %7 {shape=[1,8]}
  %9: f32[1,8] = sub %4, %8
  %10: f32[1,8] = exp %9
  store %1, %10, %2, %3 {steps=[1,8]}
}
)"),
            R"(kernel k_backward(%0: array<f32,2>, %1: array<f32,2>, %2: array<f32,2>, %3: array<f32,2>) {
  %4: i32 = bid {axis=0}
  %5: i32 = constant {dtype=i32, value=0}
  %6: f32[1,8] = load %0, %4, %5 {pad=0.0, shape=[1,8], steps=[1,8]}
  %7: f32[1] = reduce_max %6 {axes=[1]}
  %8: f32[1] = detach %7
  %9: f32[1,1] = reshape %8 {shape=[1,1]}
  %10: f32[1,8] = broadcast %9 {shape=[1,8]}
  %11: f32[1,8] = sub %6, %10
  %12: f32[1,8] = exp %11
  %13: f32[1,8] = load %2, %4, %5 {pad=0.0, shape=[1,8], steps=[1,8]}
  %14: f32[1,8] = mul %13, %12
  store %3, %14, %4, %5 {steps=[1,8]}
}
)");
}

TEST(Reverse, LoadsAtOffsetsAreRefused) {
  EXPECT_EQ(error_of([&] {
              derived(R"(kernel k(%0: array<f32,1>, %1: array<f32,1>) {
  %2: i32 = bid {axis=0}
  %3: i32[8] = arange {dtype=i32, size=8}
  %4: f32[8] = load_offset %0, %3 {pad=0.0}  // user.py:7
  store %1, %4, %2 {steps=[8]}
}
)");
            }),
            "user.py:7: load_offset: has no derivative; compute this part by other means, or write the "
            "gradient by hand");
}

TEST(Reverse, ArraysThatAreReadAndWrittenAreRefused) {
  EXPECT_EQ(error_of([&] {
              derived(R"(kernel k(%0: array<f32,1>) {
  %2: i32 = bid {axis=0}
  %3: f32[8] = load %0, %2 {pad=0.0, shape=[8], steps=[8]}  // user.py:7
  store %0, %3, %2 {steps=[8]}
}
)");
            }),
            "user.py:7: load: has no derivative: it reads an array that the kernel writes; read and write "
            "different arrays");
}

}  // namespace
}  // namespace tile
