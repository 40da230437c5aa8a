// f8e4m3 (no infinities, one NaN pattern, largest value 448) and f8e5m2 (IEEE-like, largest value 57344), one
// value at a time. float to 8 bits rounds to nearest even. Values beyond the largest become the largest in
// e4m3 and infinity in e5m2, as with torch's casts from 2.13 on and on GPUs. An e5m2 NaN converted to float
// and back is unchanged.
#pragma once
#include "cpu/vecmath/vec.h"

namespace tile::cpu::TILE_ISA {

struct f8e4m3 {
  uint8_t bits;
};
struct f8e5m2 {
  uint8_t bits;
};

// exponent_bits and mantissa_bits define the format; its bias is 2^(exponent_bits-1) - 1.
template <int exponent_bits, int mantissa_bits>
TILE_INLINE float small_to_float(uint8_t x) {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1, drop = 23 - mantissa_bits;
  const uint32_t sign = static_cast<uint32_t>(x & 0x80) << 24, magnitude = x & 0x7f;
  if (magnitude >> mantissa_bits == 0) {  // zero and subnormals: an integer times a power of two
    const float value = static_cast<float>(magnitude) *
                        bit_cast<float>(static_cast<uint32_t>(127 + 1 - bias - mantissa_bits) << 23);
    return bit_cast<float>(bit_cast<uint32_t>(value) | sign);
  }
  return bit_cast<float>(((magnitude << drop) + (static_cast<uint32_t>(127 - bias) << 23)) | sign);
}
// Returns the rounded magnitude. The rounding carries into the exponent, and past the top of the format if x
// is too large.
template <int exponent_bits, int mantissa_bits>
TILE_INLINE uint32_t float_to_small(uint32_t magnitude) {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1, drop = 23 - mantissa_bits;
  constexpr uint32_t smallest_normal = static_cast<uint32_t>(127 + 1 - bias) << 23;
  if (magnitude < smallest_normal) {
    // Adding 2^(23 - bias - mantissa_bits + 1) leaves the subnormal's integer in the low bits.
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
  if (magnitude >= 0x43e80000) return {static_cast<uint8_t>(sign | 0x7e)};  // 464 is halfway beyond 448
  return {static_cast<uint8_t>(sign | float_to_small<4, 3>(magnitude))};
}
// Maps the two payload bits of an f8e5m2 NaN to the first two of float's, and back. Other NaNs become 0x7f in
// f8e5m2, but the usual NaN of float has payload 10, so payloads 11 and 10 of f8e5m2 are exchanged.
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
