// Tests the detection of strided arrays that share memory.
#include "runtime/overlap.h"

#include <gtest/gtest.h>

#include <vector>

namespace tile {
namespace {

struct Array {
  int64_t address;
  std::vector<int64_t> sizes, strides;
  int64_t bytes = 4;
  StridedMemory strided_memory() const { return {address, bytes, sizes, strides}; }
};

// Returns the address of every byte of every element.
std::vector<int64_t> bytes_of(const Array& array) {
  std::vector<int64_t> bytes{array.address};
  for (size_t axis = 0; axis < array.sizes.size(); ++axis) {
    std::vector<int64_t> next;
    for (int64_t i = 0; i < array.sizes[axis]; ++i)
      for (const int64_t at : bytes) next.push_back(at + i * array.strides[axis] * array.bytes);
    bytes = next;
  }
  std::vector<int64_t> all;
  for (const int64_t at : bytes)
    for (int64_t k = 0; k < array.bytes; ++k) all.push_back(at + k);
  return all;
}
bool meet(const Array& a, const Array& b) {
  for (const int64_t x : bytes_of(a))
    for (const int64_t y : bytes_of(b))
      if (x == y) return true;
  return false;
}

TEST(Overlap, IsThatOfTheBytes) {
  const std::vector<Array> arrays = {{64, {8}, {1}},          {96, {8}, {1}},       {92, {8}, {1}},
                                     {64, {8}, {2}},          {68, {8}, {2}},       {124, {8}, {-2}},
                                     {120, {8}, {-2}},        {64, {4, 2}, {4, 1}}, {72, {4, 2}, {4, 1}},
                                     {66, {8}, {1}, 2},       {64, {0, 4}, {4, 1}}, {64, {}, {}},
                                     {64, {3, 5}, {0, 3}, 1}, {70, {4}, {-1}, 2},   {180, {2, 3}, {-7, -2}}};
  for (const Array& a : arrays)
    for (const Array& b : arrays) EXPECT_EQ(overlap(a.strided_memory(), b.strided_memory()), meet(a, b));
}

TEST(Overlap, OfOneArrayWithItself) {
  const auto itself = [](std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    return overlaps_itself(Array{64, sizes, strides}.strided_memory());
  };
  EXPECT_FALSE(itself({4, 4}, {4, 1}));
  EXPECT_FALSE(itself({4, 4}, {-4, 1}));
  EXPECT_FALSE(itself({4, 4}, {2, 9}));
  EXPECT_FALSE(itself({1, 4}, {0, 1}));
  EXPECT_FALSE(itself({0, 4}, {0, 1}));
  EXPECT_TRUE(itself({4, 4}, {0, 1}));
  EXPECT_TRUE(itself({4, 4}, {2, 1}));
  EXPECT_TRUE(itself({4, 4}, {3, -2}));
}

}  // namespace
}  // namespace tile
