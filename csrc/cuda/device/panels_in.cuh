// Tiles that an epilogue loads, which a producer has copied to the stages of a ring: each warp reads its rows
// in the layout of an accumulator. From sm_90 on.
//
// P describes a tile: blocks of 64 rows of a group, panels of a row, 16-byte chunks of a panel's row, and the
// bytes of a panel, which has the rows of all groups.
#pragma once
#include "cuda/device/rings.cuh"
#include "cuda/device/tensor_cores.cuh"
#include "cuda/device/tile.cuh"
#include "cuda/device/warps.cuh"

namespace tile {

template <class P, class R, class T, class L>
TILE Tile<T, L> read_stage(const Ring& ring, SharedAddress memory, int group, int line) {
  static_assert(sizeof(T) == 2, "matrices have elements of 16 bits");
  constexpr int pitch = P::chunks * 16;
  const int row = warp() * 16 + lane() % 16, exchange = row / (8 / P::chunks) % P::chunks;
  const SharedAddress rows = stage_address<R>(ring, memory) + ((group - 1) * P::rows * 64 + row) * pitch;
  Tile<T, L> tile;
  TILE_UNROLL
  for (int i = 0; i < P::rows * P::panels; ++i) {
    const SharedAddress from = rows + i / P::panels * 64 * pitch + i % P::panels * P::panel_bytes;
    TILE_UNROLL
    for (int chunk = 0; chunk < P::chunks; chunk += 2) {
      u32 words[4];
      load_matrices<false>(words, from + ((chunk + lane() / 16) ^ exchange) * 16, line);
      TILE_UNROLL
      for (int word = 0; word < 4; ++word)
        memcpy(&tile.x[(i * P::chunks + chunk) * 4 + word * 2], &words[word], 4);
    }
  }
  return tile;
}
}  // namespace tile
