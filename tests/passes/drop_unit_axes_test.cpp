// Tests accesses of tiles without the axes that a reshape drops or adds.
#include "pass_text.h"

namespace tile {
namespace {

// The end of a kernel with a matrix product.
constexpr char product[] = R"(
  %m0: bf16[16,16] = load %m, %i, %i {pad=0.0, shape=[16,16], steps=[16,16]}
  %m1: f32[16,16] = load %n, %i, %i {pad=0.0, shape=[16,16], steps=[16,16]}
  %m2: f32[16,16] = mma %m0, %m0, %m1
  store %n, %m2, %i, %i {steps=[16,16]}
})";
constexpr char product_after[] = R"( = mma )";

// Returns the text after the pass up to the product, whose loads are not changed.
std::string dropped(std::string_view parameters, std::string_view body) {
  std::string text = after("drop_unit_axes", str("kernel k(%m: array<bf16,2>, %n: array<f32,2>, ", parameters,
                                                 ") {\n  %i: i32 = bid {axis=0}\n", body, product));
  text = text.substr(text.find("bid"));
  text = text.substr(text.find('\n') + 1);
  return text.substr(0, text.find(product_after));
}

// Loads a head of keys, a tile that is cast and transposed, and a tile with a unit axis in the middle.
TEST(DropUnitAxes, Loads) {
  EXPECT_EQ(dropped("%x: array<bf16,4>, %h: i32", R"(
  %t: bf16[1,1,16,8] = load %x, %h, %i, %i, %h {pad=-1.0, shape=[1,1,16,8], steps=[1,1,16,8]}
  %0: bf16[16,8] = reshape %t {shape=[16,8]}
  %u: bf16[1,16,1,8] = load %x, %h, %i, %i, %h {pad=0.0, shape=[1,16,1,8], steps=[1,16,1,8]}
  %1: f32[1,16,1,8] = astype %u {dtype=f32}
  %2: f32[1,8,1,16] = permute %1 {axes=[0,3,2,1]}
  %3: f32[8,16] = reshape %2 {shape=[8,16]}
  %4: f32[16] = reduce_sum %3 {axes=[0]}
)"),
            R"(  %5: array<bf16,2> = index %2, %3, %4
  %6: bf16[16,8] = load %5, %4, %3 {pad=-1.0, shape=[16,8], steps=[16,8]}
  %7: array<bf16,4> = permute_array %2 {axes=[0,2,1,3]}
  %8: array<bf16,2> = index %7, %3, %4
  %9: bf16[16,8] = load %8, %4, %3 {pad=0.0, shape=[16,8], steps=[16,8]}
  %10: f32[16,8] = astype %9 {dtype=f32}
  %11: f32[8,16] = permute %10 {axes=[1,0]}
  %12: f32[16] = reduce_sum %11 {axes=[0]}
  %13: bf16[16,16] = load %0, %4, %4 {pad=0.0, shape=[16,16], steps=[16,16]}
  %14: f32[16,16] = load %1, %4, %4 {pad=0.0, shape=[16,16], steps=[16,16]}
  %15: f32[16,16])");
}

// A unit axis that the reshape keeps stays; other changes of the reshape are done afterwards.
TEST(DropUnitAxes, OtherShapes) {
  EXPECT_EQ(dropped("%x: array<f32,3>, %h: i32", R"(
  %t: f32[1,1,16] = load %x, %h, %i, %h {pad=0.0, shape=[1,1,16], steps=[1,1,16]}
  %0: f32[16,1] = reshape %t {shape=[16,1]}
  %u: f32[1,1,16] = load %x, %i, %i, %i {pad=0.0, shape=[1,1,16], steps=[1,1,16]}
  %1: f32[1,16] = reshape %u {shape=[1,16]}
  %2: f32[16] = reshape %u {shape=[16]}
)"),
            R"(  %5: array<f32,1> = index %2, %3, %4
  %6: f32[16] = load %5, %3 {pad=0.0, shape=[16], steps=[16]}
  %7: f32[16,1] = reshape %6 {shape=[16,1]}
  %8: array<f32,2> = index %2, %4
  %9: f32[1,16] = load %8, %4, %4 {pad=0.0, shape=[1,16], steps=[1,16]}
  %10: f32[16] = reshape %9 {shape=[16]}
  %11: bf16[16,16] = load %0, %4, %4 {pad=0.0, shape=[16,16], steps=[16,16]}
  %12: f32[16,16] = load %1, %4, %4 {pad=0.0, shape=[16,16], steps=[16,16]}
  %13: f32[16,16])");
}

TEST(DropUnitAxes, Stores) {
  EXPECT_EQ(dropped("%x: array<bf16,4>, %s: array<f32,3>, %h: i32, %t: f32", R"(
  %0: f32[16,8] = broadcast %t {shape=[16,8]}
  %1: f32[1,1,16,8] = reshape %0 {shape=[1,1,16,8]}
  %2: bf16[1,1,16,8] = astype %1 {dtype=bf16}
  store %x, %2, %h, %i, %i, %h {in_bounds=1, steps=[1,1,16,8]}
  %3: f32[16,1] = broadcast %t {shape=[16,1]}
  %4: f32[1,1,16] = reshape %3 {shape=[1,1,16]}
  add_tile %s, %4, %i, %h, %i {steps=[1,1,16]}
)"),
            R"(  %7: f32[16,8] = broadcast %5 {shape=[16,8]}
  %8: f32[1,1,16,8] = reshape %7 {shape=[1,1,16,8]}
  %9: bf16[1,1,16,8] = astype %8 {dtype=bf16}
  %10: bf16[16,8] = astype %7 {dtype=bf16}
  %11: array<bf16,2> = index %2, %4, %6
  store %11, %10, %6, %4 {in_bounds=1, steps=[16,8]}
  %12: f32[16,1] = broadcast %5 {shape=[16,1]}
  %13: f32[1,1,16] = reshape %12 {shape=[1,1,16]}
  %14: f32[16] = reshape %12 {shape=[16]}
  %15: array<f32,1> = index %3, %6, %4
  add_tile %15, %14, %6 {steps=[16]}
  %16: bf16[16,16] = load %0, %6, %6 {pad=0.0, shape=[16,16], steps=[16,16]}
  %17: f32[16,16] = load %1, %6, %6 {pad=0.0, shape=[16,16], steps=[16,16]}
  %18: f32[16,16])");
}

// Unchanged: tiles that are also read with their axes, last axes, merged axes, and an index with another
// step.
TEST(DropUnitAxes, StaysAsItIs) {
  const std::string body = R"(  %5: f32[1,16] = load %2, %4, %3 {pad=0.0, shape=[1,16], steps=[1,16]}
  %6: f32[16] = reshape %5 {shape=[16]}
  store %2, %5, %3, %3 {steps=[1,16]}
  %7: f32[1,1] = load %2, %3, %3 {pad=0.0, shape=[1,1], steps=[1,1]}
  %8: f32 = reshape %7 {shape=[]}
  %9: f32[2,16] = load %2, %3, %3 {pad=0.0, shape=[2,16], steps=[2,16]}
  %10: f32[32] = reshape %9 {shape=[32]}
  %11: f32[1,16] = load %2, %3, %3 {pad=0.0, shape=[1,16], steps=[2,16]}
  %12: f32[16] = reshape %11 {shape=[16]}
  %13: f32[1,16] = reshape %12 {shape=[1,16]}
  store %2, %13, %3, %3 {steps=[2,16]}
  %14: f32[16,1] = load %2, %3, %3 {pad=0.0, shape=[16,1], steps=[16,1]}
  %15: f32[16] = reshape %14 {shape=[16]}
)";
  std::string text =
      str("kernel k(%0: array<bf16,2>, %1: array<f32,2>, %2: array<f32,2>, %3: i32) {\n"
          "  %4: i32 = bid {axis=0}\n",
          body, R"(  %16: bf16[16,16] = load %0, %4, %4 {pad=0.0, shape=[16,16], steps=[16,16]}
  %17: f32[16,16] = load %1, %4, %4 {pad=0.0, shape=[16,16], steps=[16,16]}
  %18: f32[16,16] = mma %16, %16, %17
  store %1, %18, %4, %4 {steps=[16,16]}
}
)");
  EXPECT_EQ(after("drop_unit_axes", text), text);
}

TEST(DropUnitAxes, OnlyWhereAKernelMultiplies) {
  const std::string text = R"(kernel k(%0: array<f32,2>, %1: i32) {
  %2: f32[1,16] = load %0, %1, %1 {pad=0.0, shape=[1,16], steps=[1,16]}
  %3: f32[16] = reshape %2 {shape=[16]}
  %4: f32[16] = neg %3
  %5: f32[1,16] = reshape %4 {shape=[1,16]}
  store %0, %5, %1, %1 {steps=[1,16]}
}
)";
  EXPECT_EQ(after("drop_unit_axes", text), text);
}

}  // namespace
}  // namespace tile
