// Tests the order of a kernel's parameters and of a tensor map's dimensions.
#include "cuda/parameters.h"

#include <gtest/gtest.h>

#include "support/text.h"

namespace tile::cuda {
namespace {

std::string text_of(const std::vector<Parameter>& parameters) {
  return join(parameters, " ", [](const Parameter& each) { return str(name_of(each.kind), each.index); });
}

TEST(Parameters, AreArgumentsTheGridMapsFailuresAndTheStart) {
  EXPECT_EQ(text_of(parameters_of(0, false, 0, false, false, false)), "");
  EXPECT_EQ(text_of(parameters_of(2, false, 0, false, false, true)), "argument0 argument1 starts_early0");
  EXPECT_EQ(text_of(parameters_of(1, true, 2, true, true, true)),
            "argument0 grid0 grid1 grid2 tensor_map0 tensor_map1 block_counter0 failures0 starts_early0");
}

TEST(TensorMapSpec, HasTheUnitAxisAndThenTheOthersFromTheLast) {
  EXPECT_EQ(axes_of({.unit = 0, .box = {64}}), (std::vector<int>{0}));
  EXPECT_EQ(axes_of({.unit = 2, .box = {1, 8, 64}}), (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(axes_of({.unit = 0, .box = {64, 8, 1}}), (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(axes_of({.unit = 1, .box = {1, 64, 8, 2}}), (std::vector<int>{1, 3, 2, 0}));
}

TEST(TensorMapSpec, HasNoAxisWithoutElementsOfABox) {
  EXPECT_EQ(axes_of({.unit = 3, .box = {0, 1, 64, 32}, .sliced = 2}), (std::vector<int>{3, 2, 1}));
}

}  // namespace
}  // namespace tile::cuda
