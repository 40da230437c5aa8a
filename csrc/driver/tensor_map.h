// TMA tensor maps: how copies of the hardware find the elements of an array in global memory.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace tile {

// CUtensorMap: kernels take it by value.
struct alignas(64) TensorMap {
  std::array<uint64_t, 16> words{};
};
static_assert(sizeof(TensorMap) == 128);

// These numbers are copied from cuda.h, as those in driver_functions.h are. Elements of other types pass as
// unsigned integers of their size.
enum class TensorMapType {
  u8 = 0,
  u16 = 1,
  u32 = 2,
  i32 = 3,
  u64 = 4,
  i64 = 5,
  f16 = 6,
  f32 = 7,
  f64 = 8,
  bf16 = 9,
  tf32 = 11  // elements of f32, which copies to shared memory round to nearest even
};
int element_bytes(TensorMapType type);

// The array and the boxes that a map describes. The first `rank` entries are set, from the innermost
// dimension on, whose elements are adjacent.
struct TensorMapShape {
  static constexpr int most_dimensions = 5, stride_unit = 16;  // strides are multiples of so many bytes
  const void* data = nullptr;
  TensorMapType type = TensorMapType::f32;
  int rank = 1;
  std::array<int64_t, most_dimensions> sizes{}, strides{};  // strides are in bytes
  std::array<int, most_dimensions> box{};                   // the elements that a copy moves
  int swizzle = 0;                                          // in bytes: 0, 32, 64 or 128
};

// Throws if no map of this shape exists. The error names the kernel, the number of its array, the values and
// the fix.
void check_tensor_map(const TensorMapShape& shape, std::string_view kernel, int array);

}  // namespace tile
