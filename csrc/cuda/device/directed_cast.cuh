// Float casts of scalars and tiles with directed rounding, or to nearest with halves away from zero.
#pragma once
#include "cuda/device/float_modes.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// A rounding direction: how it narrows f64 to f32, which may be narrowed further, and what it adds to the
// magnitude before the bits of `low` are cut off.
struct TowardZero {
  TILE static f32 narrow(f64 x, bool) { return math::narrow_rz(x); }
  TILE static u32 added(bool, u32) { return 0; }
};
struct Down {
  TILE static f32 narrow(f64 x, bool) { return math::narrow_rm(x); }
  TILE static u32 added(bool negative, u32 low) { return negative ? low : 0u; }
};
struct Up {
  TILE static f32 narrow(f64 x, bool) { return math::narrow_rp(x); }
  TILE static u32 added(bool negative, u32 low) { return negative ? 0u : low; }
};
// To nearest, halves away from zero.
struct HalvesAway {
  TILE static f32 narrow(f64 x, bool further) {
    if (further) return math::narrow_rz(x);
    const f32 low = math::narrow_rm(x), high = math::narrow_rp(x);
    if (x - (f64)low == (f64)high - x) return x > 0 ? high : low;
    return (f32)x;
  }
  TILE static u32 added(bool, u32 low) { return low / 2 + 1; }
};

// Rounds the magnitude of a float32 that is not NaN by cutting off its last bits.
template <class Direction>
TILE u32 round_bits(u32 size, int drop, bool negative) {
  const u32 low = (1u << drop) - 1;
  return (size + Direction::added(negative, low)) & ~low;
}
// Returns the magnitude in units of 2^-24, the least subnormal of f16; these are the bits of the result. 1024
// is the least normal number.
template <class Direction>
TILE u32 subnormal_of_f16(u32 size, bool negative) {
  const int exponent = (int)(size >> 23);
  const u32 mantissa = (size & 0x7fffffu) | (exponent ? 0x800000u : 0u);
  const int drop = exponent < 96 ? 30 : 126 - exponent;  // below that, only the added rounding bits matter
  return (mantissa + Direction::added(negative, (1u << drop) - 1)) >> drop;
}
template <class Direction, class To>
struct DirectedFrom;
template <class Direction>
struct DirectedFrom<Direction, f32> {
  TILE static f32 of(f32 x) { return x; }
};
template <class Direction>
struct DirectedFrom<Direction, tf32> {
  TILE static tf32 of(f32 x) {
    if (x != x) return {x};
    const u32 bits = bits_of(x), sign = bits & 0x80000000u;
    return {float_from_bits(sign | round_bits<Direction>(bits ^ sign, 13, sign != 0))};
  }
};
template <class Direction>
struct DirectedFrom<Direction, bf16> {
  TILE static bf16 of(f32 x) {
    if (x != x) return FromFloat<bf16>::of(x);
    const u32 bits = bits_of(x), sign = bits & 0x80000000u;
    return {(u16)((sign | round_bits<Direction>(bits ^ sign, 16, sign != 0)) >> 16)};
  }
};
template <class Direction>
struct DirectedFrom<Direction, f16> {
  TILE static f16 of(f32 x) {
    const u32 bits = bits_of(x), sign = bits & 0x80000000u, size = bits ^ sign;
    if (size >= 0x7f800000u) return FromFloat<f16>::of(x);
    const bool negative = sign != 0;
    u32 to;
    if (size < 0x38800000u)  // 2^-14
      to = subnormal_of_f16<Direction>(size, negative);
    else
      to = (round_bits<Direction>(size, 13, negative) - 0x38000000u) >> 13;
    if (to >= 0x7c00u) to = Direction::added(negative, 1) ? 0x7c00u : 0x7bffu;
    return {(u16)(sign >> 16 | to)};
  }
};
template <class Direction, class To, class From>
TILE To directed(From x) {
  if constexpr (Same<To, f64>::value)
    return (f64)LaneOf<From>::in(x);
  else if constexpr (Same<From, f64>::value)
    return DirectedFrom<Direction, To>::of(Direction::narrow(x, !Same<To, f32>::value));
  else
    return DirectedFrom<Direction, To>::of(LaneOf<From>::in(x));
}

#define TILE_CAST(NAME, DIRECTION)                                                    \
  template <class To, class From>                                                     \
  TILE To NAME(From x) {                                                              \
    return directed<DIRECTION, To>(x);                                                \
  }                                                                                   \
  template <class To, class From, class L>                                            \
  TILE Tile<To, L> NAME(const Tile<From, L>& x) {                                     \
    Tile<To, L> to;                                                                   \
    TILE_UNROLL                                                                       \
    for (int r = 0; r < L::registers; ++r) to.x[r] = directed<DIRECTION, To>(x.x[r]); \
    return to;                                                                        \
  }
TILE_CAST(astype_rz, TowardZero)
TILE_CAST(astype_rm, Down)
TILE_CAST(astype_rp, Up)
TILE_CAST(astype_ra, HalvesAway)
#undef TILE_CAST

}  // namespace tile
