// Tests the bytes of a launch's parameters.
#include "runtime/cuda_parameters.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tile {
namespace {

TEST(CudaParameters, LieAsProgramsExpect) {
  const CudaParameters layout({Type::array(DType::f32, 0), Type::tile(DType::boolean),
                               Type::array(DType::f32, 3), Type::tile(DType::f64)},
                              {}, cuda::parameters_of(4, false, 0, false, false, false));
  EXPECT_EQ(layout.bytes(), 24u + 8 + 48 + 8);
  struct Rank0 {
    const void* data;
    int64_t strides[1];
    int32_t sizes[1];
  };
  struct Rank3 {
    const void* data;
    int64_t strides[3];
    int32_t sizes[3];
  };
  float value = 0, other = 0;
  ArrayArgument scalar{.data = &value}, cube{.data = &other, .rank = 3};
  cube.sizes = {2, 3, 2147483647};
  cube.strides = {-7, 0, int64_t{1} << 40};
  const ScalarArgument yes = scalar_argument(true), number = scalar_argument(2.5);
  const ArgumentRef arguments[] = {scalar, yes, cube, number};
  CudaParameters::Packed packed;
  std::memset(&packed, 0xee, sizeof packed);
  layout.pack(arguments, {}, packed);
  const auto& first = *static_cast<const Rank0*>(packed.pointers[0]);
  EXPECT_EQ(first.data, &value);
  EXPECT_EQ(first.strides[0], 1);
  EXPECT_EQ(first.sizes[0], 1);
  EXPECT_EQ(*static_cast<const uint8_t*>(packed.pointers[1]), 1);
  const auto& third = *static_cast<const Rank3*>(packed.pointers[2]);
  EXPECT_EQ(third.data, &other);
  for (size_t axis = 0; axis < 3; ++axis) {
    EXPECT_EQ(third.strides[axis], cube.strides[axis]);
    EXPECT_EQ(third.sizes[axis], cube.sizes[axis]);
  }
  EXPECT_EQ(*static_cast<const double*>(packed.pointers[3]), 2.5);
}

TEST(CudaParameters, LieInTheOrderOfTheProgram) {
  const CudaParameters layout({Type::array(DType::f32, 1), Type::tile(DType::i32)}, {},
                              cuda::parameters_of(2, false, 2, false, true, true));
  EXPECT_EQ(layout.bytes(), 64u + 2 * 128 + 16 + 4);  // maps begin at a multiple of 64 bytes
  ArrayArgument array{.rank = 1};
  array.sizes[0] = array.strides[0] = 1;
  const ScalarArgument number = scalar_argument(7);
  const ArgumentRef arguments[] = {array, number};
  uint32_t words[2];
  CudaParameters::Packed packed;
  layout.pack(arguments, {.failures = {words, words + 1}, .starts_early = 1}, packed);
  TensorMap* const maps = layout.tensor_maps(packed);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(maps) % 64, 0u);
  EXPECT_EQ(packed.pointers[2], maps);
  EXPECT_EQ(packed.pointers[3], maps + 1);
  EXPECT_EQ(*static_cast<int*>(packed.pointers[1]), 7);
  const auto& failures = *static_cast<const FailureLocation*>(packed.pointers[4]);
  EXPECT_EQ(failures.any, words);
  EXPECT_EQ(failures.record, words + 1);
  EXPECT_EQ(*static_cast<uint32_t*>(packed.pointers[5]), 1u);
}

}  // namespace
}  // namespace tile
