// Tests the parameters that a function is said to read, write and pick elements of.
#include "ir/touched.h"

#include <gtest/gtest.h>

#include "ir/print.h"
#include "ir/verify.h"

namespace tile {
namespace {

Touched touched_of(std::string_view text) {
  const Function function = parse(text);
  verify(function, "touched");
  return touched_parameters(function);
}

TEST(Touched, PicksWhatOtherOperandsName) {
  const Touched touched =
      touched_of(R"(kernel k(%0: array<f32,1>, %1: array<i32,1>, %2: array<f32,1>, %3: i32) {
  %4: i32[8] = load %1, %3 {pad=0, shape=[8], steps=[8]}
  %5: f32[8] = gather %0, %4 {pad=0.0}
  store %2, %5, %3 {steps=[8]}
}
)");
  EXPECT_EQ(touched.read, 0b011u);
  EXPECT_EQ(touched.written, 0b100u);
  EXPECT_EQ(touched.picked, 0b001u);
}

}  // namespace
}  // namespace tile
