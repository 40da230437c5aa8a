// Tests the steps of range(): constants are checked during tracing, run-time values before the loop.
#include <gtest/gtest.h>

#include <vector>

#include "error_text.h"
#include "ir/print.h"
#include "passes/pipeline.h"
#include "runtime/kernel.h"
#include "support/text.h"
#include "tile.h"

namespace tile {
namespace {

ArrayArgument array(std::vector<int32_t>& values) {
  ArrayArgument argument;
  argument.data = values.data();
  argument.dtype = DType::i32;
  argument.rank = 1;
  argument.sizes[0] = static_cast<int64_t>(values.size());
  argument.strides[0] = 1;
  return argument;
}

constexpr int first_line = __LINE__ + 1;
void stepped_kernel(Array out, Tile low, Tile high, Tile step) {
  Tile sum = 0;
  for (Tile i : range(low, high, step)) sum += i.astype(i32);
  out.tiled_view({1}).store({bid(0)}, sum);
}
void constant_kernel(Array out) {
  Tile step = -2, sum = 0;
  for (Tile i : range(0, 10, step)) sum += i;
  out.tiled_view({1}).store({bid(0)}, sum);
}
void blocks_kernel(Array out) {
  Tile sum = 0;
  for (Tile i : range(bid(0), 10, num_blocks(0))) sum += i;
  out.tiled_view({1}).store({bid(0)}, sum);
}
Kernel stepped("stepped", stepped_kernel);
Kernel constant("constant", constant_kernel);
Kernel blocks("blocks", blocks_kernel);

TEST(RangeSteps, OfRunTimeAreAsserted) {
  std::vector<int32_t> out(1);
  stepped.launch({1}, array(out), 1, 10, 3);
  EXPECT_EQ(out[0], 1 + 4 + 7);
  stepped.launch({1}, array(out), 1, 10, 2147483647);
  EXPECT_EQ(out[0], 1);
  for (const int step : {0, -1, -2147483647 - 1}) {
    out[0] = 77;
    EXPECT_EQ(
        error_of([&] { stepped.launch({1}, array(out), 1, 10, step); }),
        str("range_steps_test.cpp:", first_line + 2,
            ": assertion failed: range: the step must be at least 1; block (0, 0, 0) of kernel stepped"));
    EXPECT_EQ(out[0], 77);
  }
  stepped.launch({1}, array(out), int64_t{1}, int64_t{1} << 40, int64_t{1} << 39);
  EXPECT_EQ(out[0], 2);
}

TEST(RangeSteps, ThatAreConstantsAreCheckedAtOnce) {
  std::vector<int32_t> out(1);
  EXPECT_EQ(error_of([&] { constant.launch({1}, array(out)); }),
            str("range_steps_test.cpp:", first_line + 7, ": range: the step is -2; it must be at least 1"));
}

TEST(RangeSteps, ThatCountBlocksNeedNoAssertion) {
  std::vector<int32_t> out(3);
  blocks.launch({3}, array(out));
  EXPECT_EQ(out, (std::vector<int32_t>{0 + 3 + 6 + 9, 1 + 4 + 7, 2 + 5 + 8}));
  const auto asserts = [](Function function) {
    run_passes(function);  // passes that assume at least one block
    return print(function).find("assert") != std::string::npos;
  };
  EXPECT_FALSE(asserts(blocks.trace(array(out))));
  EXPECT_TRUE(asserts(stepped.trace(array(out), 1, 10, 3)));
}

}  // namespace
}  // namespace tile
