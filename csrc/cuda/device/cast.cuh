// astype and bitcast of scalars and tiles.
#pragma once
#include "cuda/device/math.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

template <class To, class From>
TILE To astype(From x) {
  return convert<To>(x);
}
template <class To, class From, class L>
TILE Tile<To, L> astype(const Tile<From, L>& x) {
  Tile<To, L> to;
  if constexpr (Same<From, bf16>::value && Same<To, f32>::value && L::registers % 2 == 0) {
    TILE_UNROLL
    for (int r = 0; r < L::registers; r += 2) {
      const u32 pair = pair_at(x, r);
      to.x[r] = float_from_bits(pair << 16);
      to.x[r + 1] = float_from_bits(pair & 0xffff0000u);
    }
  } else {
    TILE_UNROLL
    for (int r = 0; r < L::registers; ++r) to.x[r] = convert<To>(x.x[r]);
  }
  return to;
}
// The same, at this position: the compiler does not move it out of a loop, which would keep the wider tile.
template <class To, class From, class L>
TILE Tile<To, L> astype_here(Tile<From, L> x) {
  TILE_UNROLL
  for (int r = 0; r + 1 < L::registers; r += 2) {
    u32 pair = pair_at(x, r);
    keep_here(pair);
    set_pair(x, r, pair);
  }
  return astype<To>(x);
}
// The same for register r.
template <class To, class From, class L>
TILE To astype_here(const Tile<From, L>& x, int r) {
  if constexpr (L::registers % 2 == 0) {
    u32 pair = pair_at(x, r & ~1);
    keep_here(pair);
    if constexpr (Same<From, bf16>::value && Same<To, f32>::value)
      return float_from_bits(r & 1 ? pair & 0xffff0000u : pair << 16);
    else
      return convert<To>(bitcast<From>((u16)(r & 1 ? pair >> 16 : pair)));
  } else {
    return convert<To>(x.x[r]);
  }
}
template <class To, class From, class L>
TILE Tile<To, L> bitcast(const Tile<From, L>& x) {
  Tile<To, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = bitcast<To>(x.x[r]);
  return to;
}

}  // namespace tile
