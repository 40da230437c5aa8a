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
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = convert<To>(x.x[r]);
  return to;
}
template <class To, class From, class L>
TILE Tile<To, L> bitcast(const Tile<From, L>& x) {
  Tile<To, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = bitcast<To>(x.x[r]);
  return to;
}

}  // namespace tile
