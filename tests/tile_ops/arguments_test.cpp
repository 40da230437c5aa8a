// Tests views of tensors with other strides, which must stay within the tensor's memory.
#include "../../tile_ops/common/arguments.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "error_text.h"

namespace tile {
namespace {

std::string strided_error(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides,
                          int64_t offset = 0) {
  return error_of([&] { strided(tensor, sizes, strides, offset); });
}
constexpr const char* ends = "; the arguments' shapes do not fit together";

TEST(Strided, ViewsStayInTheTensorsMemory) {
  const at::Tensor x = at::zeros({2, 6}), rest = x.slice(0, 1);
  EXPECT_EQ(strided_error(x, {3, 4}, {4, 1}), "no error");
  EXPECT_EQ(strided_error(x, {1, 4}, {100, 1}, 8), "no error");
  EXPECT_EQ(strided_error(x, {0, 4}, {4, 1}, 50), "no error");
  const std::string small = "a tensor of shape [2, 6] is too small to be read as ";
  EXPECT_EQ(strided_error(x, {3, 5}, {5, 1}), small + "[3, 5] with strides [5, 1]" + ends);
  EXPECT_EQ(strided_error(x, {3, 4}, {4, 1}, 1), small + "[3, 4] with strides [4, 1]" + ends);
  EXPECT_EQ(strided_error(x, {1}, {1}, -1), small + "[1] with strides [1]" + ends);
  EXPECT_EQ(strided_error(x, {2}, {-1}), small + "[2] with strides [-1]" + ends);
  EXPECT_EQ(strided_error(x, {3}, {int64_t{1} << 62}),
            small + "[3] with strides [4611686018427387904]" + ends);
  EXPECT_EQ(strided_error(rest, {7}, {1}),
            "a tensor of shape [1, 6] is too small to be read as [7] with strides [1]" + std::string(ends));
}

}  // namespace
}  // namespace tile
