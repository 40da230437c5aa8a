// Tests the bytes that a launch is said to move.
#include "runtime/launch_bytes.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace tile {
namespace {

char memory[1 << 16];

ArrayArgument array(DType dtype, std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides,
                    int64_t offset = 0) {
  ArrayArgument argument;
  argument.data = memory + offset;
  argument.dtype = dtype;
  argument.rank = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), argument.sizes.begin());
  std::copy(strides.begin(), strides.end(), argument.strides.begin());
  return argument;
}

void expect_bytes(const std::vector<ArrayArgument>& arrays, const Touched& touched, int64_t least,
                  int64_t most) {
  const std::vector<ArgumentRef> refs(arrays.begin(), arrays.end());
  const LaunchBytes bytes = launch_bytes(refs, touched);
  EXPECT_EQ(bytes.least, least);
  EXPECT_EQ(bytes.most, most);
}

TEST(LaunchBytes, CountsReadsAndWrites) {
  const ArrayArgument x = array(DType::f32, {3, 5}, {5, 1}), y = array(DType::bf16, {3, 5}, {5, 1}, 1000);
  expect_bytes({x, y}, {.written = 2, .read = 1}, 60 + 30, 60 + 30);
  expect_bytes({x, y}, {.written = 2, .read = 3}, 60 + 60, 60 + 60);
  expect_bytes({x, y}, {.written = 2}, 30, 30);
}
TEST(LaunchBytes, CountsAnArrayOnceWhereItIsGivenTwice) {
  const ArrayArgument x = array(DType::f32, {4, 4}, {4, 1}), transposed = array(DType::f32, {4, 4}, {1, 4});
  expect_bytes({x, transposed}, {.written = 0, .read = 3}, 64, 64);
  expect_bytes({x, transposed}, {.written = 2, .read = 1}, 128, 128);
}
TEST(LaunchBytes, CountsElementsThatLieOnEachOtherOnce) {
  expect_bytes({array(DType::f32, {100, 8}, {0, 1})}, {.read = 1}, 32, 32);
  expect_bytes({array(DType::f32, {4}, {-1}, 12)}, {.read = 1}, 16, 16);
}
TEST(LaunchBytes, LeavesGapsAndEmptyArraysOut) {
  expect_bytes({array(DType::f32, {4, 2}, {100, 1})}, {.read = 1}, 32, 32);
  expect_bytes({array(DType::f32, {0, 8}, {8, 1}), array(DType::f32, {}, {})}, {.read = 3}, 4, 4);
  expect_bytes({}, {}, 0, 0);
}
TEST(LaunchBytes, DoesNotTrustArraysThatMayBeReachedInPart) {
  expect_bytes({array(DType::f32, {10, 3}, {1, 1})}, {.read = 1}, 0, 48);
  const ArrayArgument table = array(DType::f32, {1000, 2}, {2, 1}),
                      out = array(DType::f32, {3, 2}, {2, 1}, 10000);
  expect_bytes({table, out}, {.written = 2, .read = 1, .picked = 1}, 24, 8024);
}

}  // namespace
}  // namespace tile
