// Tests tensor maps over a fake driver: what it is asked for, and the exact text of every error.
#include "driver/tensor_map.h"

#include <gtest/gtest.h>

#include "driver/fake_cuda/driver_test.h"

namespace tile {
namespace {

const TensorMapShape matrix = {.data = reinterpret_cast<void*>(4096),
                               .type = TensorMapType::bf16,
                               .rank = 2,
                               .sizes = {512, 100},
                               .strides = {2, 1024},
                               .box = {64, 128},
                               .swizzle = 128};

class TensorMapTest : public DriverTest {
 protected:
  std::string call_of(const TensorMapShape& shape) {
    driver.tensor_map(shape, "gemm", 1);
    return fake->calls.back();
  }
  // Returns the part of an error that names the reason and the fix; the driver must not have been asked.
  std::string why(const TensorMapShape& shape) {
    fake->calls.clear();
    const std::string error = error_of([&] { driver.tensor_map(shape, "gemm", 1); });
    EXPECT_TRUE(fake->calls.empty());
    const std::string end = " bytes: ";
    return error.substr(error.find(end) + end.size());
  }
  // Returns the matrix after a change.
  TensorMapShape with(auto&& change) {
    TensorMapShape shape = matrix;
    change(shape);
    return shape;
  }
  const Driver driver{library};
};

TEST_F(TensorMapTest, IsEncodedByTheDriver) {
  const TensorMap map = driver.tensor_map(matrix, "gemm", 1);
  EXPECT_EQ(map.words[0], 4096u);
  EXPECT_EQ(fake->calls, (Calls{"cuTensorMapEncodeTiled type 9 at 4096 sizes 512 100 strides 1024 box 64 128 "
                                "steps 1 1 interleave 0 swizzle 3 promotion 3 fill 0"}));
  EXPECT_EQ(
      call_of({.data = reinterpret_cast<void*>(16),
               .type = TensorMapType::f32,
               .rank = 1,
               .sizes = {int64_t{1} << 32},
               .strides = {4},
               .box = {256}}),
      "cuTensorMapEncodeTiled type 7 at 16 sizes 4294967296 strides box 256 steps 1 interleave 0 swizzle 0 "
      "promotion 3 fill 0");
  EXPECT_EQ(
      call_of({.data = nullptr,
               .type = TensorMapType::u8,
               .rank = 5,
               .sizes = {2, 3, 4, 5, 6},
               .strides = {1, 16, (int64_t{1} << 40) - 16, 32, 48},
               .box = {32, 1, 2, 3, 4},
               .swizzle = 32}),
      "cuTensorMapEncodeTiled type 0 at 0 sizes 2 3 4 5 6 strides 16 1099511627760 32 48 box 32 1 2 3 4 "
      "steps 1 1 1 1 1 interleave 0 swizzle 1 promotion 2 fill 0");
}

TEST_F(TensorMapTest, FetchesLinesThatDoNotCrossRows) {
  const auto promotion = [&](int64_t pitch, int64_t rows) {
    const std::string call = call_of(with([&](TensorMapShape& shape) {
      shape.rank = 3, shape.sizes = {512, rows, 7}, shape.strides = {2, pitch, 4096}, shape.box = {64, 8, 1};
    }));
    return call.substr(call.find("promotion"), 11);
  };
  EXPECT_EQ(promotion(1024, 100), "promotion 3");
  EXPECT_EQ(promotion(1152, 100), "promotion 3");
  EXPECT_EQ(promotion(1040, 100), "promotion 2");
  EXPECT_EQ(promotion(1040, 1), "promotion 3");  // the next axis has the rows
}

TEST_F(TensorMapTest, IgnoresTheStrideOfAnAxisOfOneElement) {
  for (const int64_t stride : {int64_t{0}, int64_t{-6}, int64_t{6}, int64_t{1} << 50})
    EXPECT_EQ(
        call_of(with([&](TensorMapShape& shape) { shape.sizes[1] = 1, shape.strides[1] = stride; })),
        "cuTensorMapEncodeTiled type 9 at 4096 sizes 512 1 strides 16 box 64 128 steps 1 1 interleave 0 "
        "swizzle 3 promotion 3 fill 0");
}

TEST_F(TensorMapTest, ErrorsNameTheKernelTheArrayAndTheValues) {
  EXPECT_EQ(
      error_of([&] {
        driver.tensor_map(with([](TensorMapShape& shape) { shape.strides[1] = 1030; }), "gemm", 1);
      }),
      "gemm: tensor map of array 1, from the innermost axis on of extents [512, 100], strides [2, 1030] in "
      "bytes and boxes [64, 128], with a swizzle of 128 bytes: a stride is 1030 bytes, which is not a "
      "multiple of 16; pass a copy with padded rows");
  fake->results["cuTensorMapEncodeTiled"] = 1;
  EXPECT_EQ(
      error_of([&] { driver.tensor_map(matrix, "gemm", 0); }),
      "gemm: tensor map of array 0, from the innermost axis on of extents [512, 100], strides [2, 1024] in "
      "bytes and boxes [64, 128], with a swizzle of 128 bytes: the driver refuses it, "
      "CUDA_ERROR_INVALID_VALUE (meaning of 1); pass a contiguous copy");
}

TEST_F(TensorMapTest, IsRefusedBeforeTheDriverIsAsked) {
  const std::string dense = "; pass a contiguous copy", smaller = "; use smaller tiles";
  EXPECT_EQ(why(with([](auto& shape) { shape.rank = 6; })),
            "it has 6 axes, and a map has 1 to 5; pass an array of fewer axes");
  EXPECT_EQ(why(with([](auto& shape) { shape.data = reinterpret_cast<void*>(4104); })),
            "the array begins at address 0x1008, which is not a multiple of 16 bytes" + dense);
  EXPECT_EQ(why(with([](auto& shape) { shape.strides[0] = 4; })),
            "elements of 2 bytes lie 4 bytes apart" + dense);
  EXPECT_EQ(why(with([](auto& shape) { shape.sizes[1] = 0; })),
            "an extent is 0, and extents are 1 to 4294967296; pass an array with elements");
  EXPECT_EQ(why(with([](auto& shape) { shape.sizes[1] = (int64_t{1} << 32) + 1; })),
            "an extent is 4294967297, and extents are 1 to 4294967296; pass a part of the array");
  EXPECT_EQ(why(with([](auto& shape) { shape.strides[1] = 0; })),
            "the 100 elements along an axis are one, because its stride is 0" + dense);
  EXPECT_EQ(why(with([](auto& shape) { shape.strides[1] = -1024; })),
            "a stride is -1024 bytes, and strides are positive" + dense);
  EXPECT_EQ(why(with([](auto& shape) { shape.strides[1] = int64_t{1} << 40; })),
            "a stride is 1099511627776 bytes, and strides are below 1099511627776" + dense);
  EXPECT_EQ(why(with([](auto& shape) { shape.box[1] = 257; })),
            "a box has 257 elements along an axis, and boxes have 1 to 256" + smaller);
  EXPECT_EQ(why(with([](auto& shape) { shape.box[0] = 0; })),
            "a box has 0 elements along an axis, and boxes have 1 to 256" + smaller);
  EXPECT_EQ(why(with([](auto& shape) { shape.box[0] = 12; })),
            "a row of a box has 24 bytes, which is not a multiple of 16; use wider tiles");
  EXPECT_EQ(why(with([](auto& shape) { shape.swizzle = 48; })),
            "swizzles are of 0, 32, 64 or 128 bytes; use one of them");
  EXPECT_EQ(why(with([](auto& shape) { shape.swizzle = 64; })),
            "a row of a box has 128 bytes, more than the swizzle; use narrower boxes");
}

TEST_F(TensorMapTest, TypesHaveTheirSizes) {
  for (const auto& [type, bytes] : {std::pair(TensorMapType::u8, 1),
                                    {TensorMapType::u16, 2},
                                    {TensorMapType::u32, 4},
                                    {TensorMapType::i32, 4},
                                    {TensorMapType::u64, 8},
                                    {TensorMapType::i64, 8},
                                    {TensorMapType::f16, 2},
                                    {TensorMapType::f32, 4},
                                    {TensorMapType::f64, 8},
                                    {TensorMapType::bf16, 2},
                                    {TensorMapType::tf32, 4}})
    EXPECT_EQ(element_bytes(type), bytes);
}

}  // namespace
}  // namespace tile
