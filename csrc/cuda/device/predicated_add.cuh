// Atomic addition of float32 tiles to memory without branches: products of warpgroups may run meanwhile,
// which ptxas does not let run over a branch that threads may take apart. From sm_90 on.
#pragma once
#include "cuda/device/memory.cuh"
#include "cuda/device/predicated_add_instructions.cuh"

namespace tile {

// Adds `vector` adjacent elements at once.
template <class L, int vector, int flags, int n, class S>
TILE void add_tile_if_inside(const Array<f32, n, S>& array, typename Array<f32, n, S>::Start start,
                             const Tile<f32, L>& from, int line) {
  static_assert(!L::replicas && !L::block_replicas && !L::padded, "every thread adds elements of its own");
  const Window<L, f32, n, S> window(array, start);
  TILE_UNROLL
  for (int r = 0; r < L::registers; r += vector) {
    f32 x[vector];
    TILE_UNROLL
    for (int i = 0; i < vector; ++i) x[i] = from.x[r + i];
    add_global_if(window.template inside<flags>(r), window.address(r), x, line);
  }
}

}  // namespace tile
