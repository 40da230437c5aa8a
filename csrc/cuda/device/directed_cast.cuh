// Casts of floats rounded in a direction: of scalars and tiles.
#pragma once
#include "cuda/device/float_modes.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// How each direction narrows f64, and whether it rounds the size of a number up.
struct TowardZero {
  TILE static f32 narrow(f64 x) { return math::narrow_rz(x); }
  TILE static bool away(bool) { return false; }
};
struct Down {
  TILE static f32 narrow(f64 x) { return math::narrow_rm(x); }
  TILE static bool away(bool negative) { return negative; }
};
struct Up {
  TILE static f32 narrow(f64 x) { return math::narrow_rp(x); }
  TILE static bool away(bool negative) { return !negative; }
};

// The size of a float32, no NaN, without its last bits.
TILE u32 cut_bits(u32 size, int drop, bool away) {
  const u32 low = (1u << drop) - 1;
  return (size + (away ? low : 0u)) & ~low;
}
// In units of the least subnormal of f16, 2^-24, which its bits are; or 1024 for the least normal number.
TILE u32 subnormal_of_f16(u32 size, bool away) {
  const int exponent = (int)(size >> 23);
  const u32 mantissa = (size & 0x7fffffu) | (exponent ? 0x800000u : 0u);
  const int drop = 126 - exponent;
  if (drop > 24) return size != 0 && away;
  const u32 whole = mantissa >> drop;
  return whole + (away && whole << drop != mantissa);
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
    return {float_from_bits(sign | cut_bits(bits ^ sign, 13, Direction::away(sign != 0)))};
  }
};
template <class Direction>
struct DirectedFrom<Direction, bf16> {
  TILE static bf16 of(f32 x) {
    if (x != x) return FromFloat<bf16>::of(x);
    const u32 bits = bits_of(x), sign = bits & 0x80000000u;
    return {(u16)((sign | cut_bits(bits ^ sign, 16, Direction::away(sign != 0))) >> 16)};
  }
};
template <class Direction>
struct DirectedFrom<Direction, f16> {
  TILE static f16 of(f32 x) {
    const u32 bits = bits_of(x), sign = bits & 0x80000000u, size = bits ^ sign;
    if (size >= 0x7f800000u) return FromFloat<f16>::of(x);
    const bool away = Direction::away(sign != 0);
    u32 to;
    if (size < 0x38800000u)  // 2^-14
      to = subnormal_of_f16(size, away);
    else
      to = (cut_bits(size, 13, away) - 0x38000000u) >> 13;
    if (to >= 0x7c00u) to = away ? 0x7c00u : 0x7bffu;
    return {(u16)(sign >> 16 | to)};
  }
};
template <class Direction, class To, class From>
TILE To directed(From x) {
  if constexpr (Same<To, f64>::value)
    return (f64)LaneOf<From>::in(x);
  else if constexpr (Same<From, f64>::value)
    return DirectedFrom<Direction, To>::of(Direction::narrow(x));
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
#undef TILE_CAST

}  // namespace tile
