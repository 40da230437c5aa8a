// What a program is made of: the names of its configurations.
#include "cuda/program.h"

#include <gtest/gtest.h>

#include "support/text.h"

namespace tile::cuda {
namespace {

TEST(Configurations, HaveNames) {
  EXPECT_EQ(join(configurations, "; ", [](const Configuration& each) { return text_of(each); }),
            "usual; sweeps; alone; sweeps, alone; alone, no loads ahead; 2x warps, alone; 1/2x warps, alone; "
            "2x blocks");
  EXPECT_EQ(text_of({.warps = -2, .blocks = -1}), "1/4x warps, 1/2x blocks");
}

}  // namespace
}  // namespace tile::cuda
