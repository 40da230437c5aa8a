// Tests the removal of unused ops by texts before and after it.
#include "ir/unused.h"

#include <gtest/gtest.h>

#include "ir/print.h"
#include "ir/verify.h"

namespace tile {
namespace {

std::string cleaned(std::string_view text) {
  Function function = parse(text);
  remove_unused(function.body());
  verify(function, "remove_unused");
  return print(function, false);
}

TEST(RemoveUnused, RemovesWhatOnlyRemovedOpsUse) {
  EXPECT_EQ(cleaned(R"(kernel k(%0: array<f32,1>, %1: i32) {
  %2: f32[8] = load %0, %1 {pad=0.0, shape=[8], steps=[8]}
  %3: f32[8] = exp %2
  %4: f32[8] = add %3, %2
  %5: f32[8] = load %0, %1 {pad=0.0, shape=[8], steps=[8]}
  store %0, %5, %1 {steps=[8]}
}
)"),
            R"(kernel k(%0: array<f32,1>, %1: i32) {
  %2: f32[8] = load %0, %1 {pad=0.0, shape=[8], steps=[8]}
  store %0, %2, %1 {steps=[8]}
}
)");
}

TEST(RemoveUnused, KeepsRegionsAndWhatTheyUse) {
  EXPECT_EQ(cleaned(R"(kernel k(%0: array<f32,1>, %1: i32) {
  %2: f32[8] = load %0, %1 {pad=0.0, shape=[8], steps=[8]}
  %3: f32[8] = for %1, %1, %1, %2 (%4: i32, %5: f32[8]) {
    %6: f32[8] = exp %5
    %7: f32[8] = add %5, %2
    yield %7
  }
}
)"),
            R"(kernel k(%0: array<f32,1>, %1: i32) {
  %2: f32[8] = load %0, %1 {pad=0.0, shape=[8], steps=[8]}
  %3: f32[8] = for %1, %1, %1, %2 (%4: i32, %5: f32[8]) {
    %6: f32[8] = add %5, %2
    yield %6
  }
}
)");
}

}  // namespace
}  // namespace tile
