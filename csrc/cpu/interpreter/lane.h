// Lanes: the type that an element has within the CPU target. Floats of 16 bits or less are computed as f32.
#pragma once
#include "ir/dtype.h"

namespace tile::cpu {

enum class Lane : uint8_t { u8, i8, i16, i32, i64, u16, u32, u64, f32, f64 };  // bool is a u8 of 0 or 1
inline constexpr int lane_count = 10;

constexpr Lane lane_of(DType dtype) {
  constexpr Lane lanes[dtype_count] = {Lane::u8,  Lane::i8,  Lane::i16, Lane::i32, Lane::i64, Lane::u8,
                                       Lane::u16, Lane::u32, Lane::u64, Lane::f32, Lane::f32, Lane::f32,
                                       Lane::f32, Lane::f32, Lane::f32, Lane::f64};
  return lanes[static_cast<int>(dtype)];
}
// Returns the dtype that has this lane and the same memory format.
constexpr DType dtype_of(Lane lane) {
  constexpr DType dtypes[lane_count] = {DType::u8,  DType::i8,  DType::i16, DType::i32, DType::i64,
                                        DType::u16, DType::u32, DType::u64, DType::f32, DType::f64};
  return dtypes[static_cast<int>(lane)];
}
constexpr int lane_bytes(Lane lane) {
  constexpr int bytes[lane_count] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8};
  return bytes[static_cast<int>(lane)];
}
// Returns true if memory holds the lanes themselves: such a tile can be read and written in place.
constexpr bool stored_as_lane(DType dtype) {
  return info(dtype).bytes == lane_bytes(lane_of(dtype)) && dtype != DType::tf32;
}

}  // namespace tile::cpu
