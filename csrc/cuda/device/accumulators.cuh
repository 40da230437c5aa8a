// Accumulators of asynchronous products that no other instruction may write before the first product.
#pragma once
#include "cuda/device/tile.cuh"

namespace tile {

// A tile whose elements the first product writes without reading them.
template <class T, class L>
TILE Tile<T, L> undefined() {
  Tile<T, L> to;
  return to;
}
// Returns zeros if no product has written the tile.
template <class T, class L>
TILE Tile<T, L> zero_unless(bool written, Tile<T, L> tile) {
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) tile.x[r] = written ? tile.x[r] : T(0);
  return tile;
}

}  // namespace tile
