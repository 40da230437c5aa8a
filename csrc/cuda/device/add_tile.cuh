// Tiles added to memory, each element at once.
#pragma once
#include "cuda/device/memory.cuh"

namespace tile {

// `vector` neighbours of float32 at once.
template <class L, int vector, int flags, class T, int n>
TILE void add_tile(const Array<T, n>& array, const i64 (&start)[n ? n : 1], const Tile<T, L>& from, int line) {
  const Window<L, T, n> window(array, start);
  if (!owner<L>()) return;
  TILE_UNROLL
  for (int r = 0; r < L::registers; r += vector) {
    const bool inside = window.template inside<flags>(r);
    if constexpr (vector == 2)
      atomic_add_global_pair(window.address(r), from.x[r], from.x[r + 1], inside, line);
    else if (inside)
      atomic_add_element(window.address(r), from.x[r], line);
  }
}

}  // namespace tile
