// Left operands that lie in shared memory, of which a group reads a part to registers. From sm_90 on.
//
// P describes the part: blocks of 64 rows of a group, steps of 16 columns, 16-byte chunks of a panel's row,
// and the bytes of a panel. `from` is where the group's rows begin.
#pragma once
#include "cuda/device/tensor_cores.cuh"
#include "cuda/device/tile.cuh"
#include "cuda/device/warps.cuh"

namespace tile {

template <class P, class T, class L>
TILE Tile<T, L> read_left(SharedAddress from, int line) {
  static_assert(sizeof(T) == 2, "matrices have elements of 16 bits");
  static_assert(L::registers == P::rows * P::steps * 8, "these are not the registers of a left operand");
  const int row = warp() * 16 + lane() % 16, exchange = row / (8 / P::chunks) % P::chunks;
  Tile<T, L> tile;
  TILE_UNROLL
  for (int i = 0; i < P::rows * P::steps; ++i) {
    const int block = i / P::steps, chunk = i % P::steps * 2;
    const int at = (chunk % P::chunks + lane() / 16) ^ exchange;
    u32 words[4];
    load_matrices<false>(
        words, from + chunk / P::chunks * P::panel_bytes + (block * 64 + row) * P::chunks * 16 + at * 16,
        line);
    TILE_UNROLL
    for (int word = 0; word < 4; ++word) memcpy(&tile.x[i * 8 + word * 2], &words[word], 4);
  }
  return tile;
}

}  // namespace tile
