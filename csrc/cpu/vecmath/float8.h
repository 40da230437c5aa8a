// f8e4m3 (no infinities, one NaN pattern, largest 448) and f8e5m2 (IEEE-like, largest 57344), one value at a
// time. float -> 8 bits rounds to nearest even; beyond the largest: the largest for e4m3, infinity for e5m2
// (what torch's casts do from 2.13 on, and a GPU's). An e5m2 NaN survives the way to float and back
// unchanged.
#pragma once
#include "cpu/vecmath/vec.h"

namespace tile::cpu::TILE_ISA {

struct f8e4m3 {
  uint8_t bits;
};
struct f8e5m2 {
  uint8_t bits;
};

// exponent_bits and mantissa_bits of the format; bias is 2^(exponent_bits-1) - 1 for both.
template <int exponent_bits, int mantissa_bits>
TILE_INLINE float small_to_float(uint8_t x) {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1, drop = 23 - mantissa_bits;
  const uint32_t sign = static_cast<uint32_t>(x & 0x80) << 24, magnitude = x & 0x7f;
  if (magnitude >> mantissa_bits == 0) {  // zero and denormals: an integer times a power of two
    const float value = static_cast<float>(magnitude) *
                        bit_cast<float>(static_cast<uint32_t>(127 + 1 - bias - mantissa_bits) << 23);
    return bit_cast<float>(bit_cast<uint32_t>(value) | sign);
  }
  return bit_cast<float>(((magnitude << drop) + (static_cast<uint32_t>(127 - bias) << 23)) | sign);
}
// Rounded magnitude; carries into the exponent by itself, and past the top of the format if x is too large.
template <int exponent_bits, int mantissa_bits>
TILE_INLINE uint32_t float_to_small(uint32_t magnitude) {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1, drop = 23 - mantissa_bits;
  constexpr uint32_t smallest_normal = static_cast<uint32_t>(127 + 1 - bias) << 23;
  if (magnitude < smallest_normal) {
    // Adding 2^(23 - bias - mantissa_bits + 1) leaves the denormal's integer in the last places.
    const uint32_t shifter = static_cast<uint32_t>(127 + 24 - bias - mantissa_bits) << 23;
    return bit_cast<uint32_t>(bit_cast<float>(magnitude) + bit_cast<float>(shifter)) - shifter;
  }
  const uint32_t half = (1u << (drop - 1)) - 1;
  return (magnitude - (static_cast<uint32_t>(127 - bias) << 23) + half + (magnitude >> drop & 1)) >> drop;
}

TILE_INLINE float to_float(f8e4m3 x) {
  if ((x.bits & 0x7f) == 0x7f)
    return bit_cast<float>(0x7fc00000u | static_cast<uint32_t>(x.bits & 0x80) << 24);
  return small_to_float<4, 3>(x.bits);
}
TILE_INLINE f8e4m3 to_f8e4m3(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffff;
  const uint8_t sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  if (magnitude > 0x7f800000) return {static_cast<uint8_t>(sign | 0x7f)};
  if (magnitude >= 0x43e80000) return {static_cast<uint8_t>(sign | 0x7e)};  // 464, half way beyond 448
  return {static_cast<uint8_t>(sign | float_to_small<4, 3>(magnitude))};
}
// Maps the two payload bits of an f8e5m2 NaN to the first two of float's, and back. Every other NaN becomes
// 0x7f in f8e5m2, and float's usual NaN has the payload 10: so f8e5m2's 11 and 10 are exchanged.
TILE_INLINE uint32_t swapped_payload(uint32_t payload) { return payload ^ (payload >> 1); }
TILE_INLINE float to_float(f8e5m2 x) {
  if ((x.bits & 0x7f) >= 0x7c)
    return bit_cast<float>(0x7f800000u | static_cast<uint32_t>(x.bits & 0x80) << 24 |
                           swapped_payload(x.bits & 3) << 21);
  return small_to_float<5, 2>(x.bits);
}
TILE_INLINE f8e5m2 to_f8e5m2(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffff;
  const uint8_t sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  if (magnitude > 0x7f800000) {
    const bool kept = (magnitude & 0x1fffff) == 0;
    return {static_cast<uint8_t>(sign | (kept ? 0x7c | swapped_payload(magnitude >> 21 & 3) : 0x7f))};
  }
  if (magnitude >= 0x47800000) return {static_cast<uint8_t>(sign | 0x7c)};
  const uint32_t r = float_to_small<5, 2>(magnitude);
  return {static_cast<uint8_t>(sign | (r > 0x7c ? 0x7c : r))};
}

}  // namespace tile::cpu::TILE_ISA
