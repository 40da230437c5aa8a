// Reads integers from lanes of any width.
#pragma once
#include <cstring>

#include "cpu/interpreter/frame.h"

namespace tile::cpu {

// Returns lane i as 64 bits.
inline int64_t lane_integer(const char* lanes, Lane lane, int64_t i) {
  Scalar scalar;
  const int bytes = lane_bytes(lane);
  std::memcpy(scalar.bytes, lanes + i * bytes, static_cast<size_t>(bytes));
  const bool is_unsigned = lane == Lane::u8 || lane == Lane::u16 || lane == Lane::u32;
  const int unused = 64 - 8 * bytes;
  return is_unsigned || unused == 0 ? scalar.i : scalar.i << unused >> unused;
}

}  // namespace tile::cpu
