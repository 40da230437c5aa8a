// Left operands that the groups compute together, each its own columns: they write them to shared memory, and
// products read all columns. From sm_90 on.
//
// P describes an operand: blocks of 64 rows, columns of a group, 16-byte chunks of a panel's row, the bytes
// of a panel and of the tile, the offset of the first of two buffers, and the threads of the groups.
#pragma once
#include "cuda/device/matrices_out.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// Writes a tile to the next buffer and waits for the other groups. The buffer's readers have ended: a group's
// products of an iteration end before it waits in the next one.
template <class P, class T, class L>
TILE SharedAddress put_columns(const Tile<T, L>& tile, SharedAddress memory, int& buffer, int group,
                               int line) {
  static_assert(sizeof(T) == 2, "matrices have elements of 16 bits");
  constexpr int chunks = P::columns / 8;  // of the group
  const SharedAddress to = memory + P::offset + buffer * P::bytes;
  buffer ^= 1;
  const int row = warp() * 16 + lane() % 16, exchange = row / (8 / P::chunks) % P::chunks;
  TILE_UNROLL
  for (int i = 0; i < P::rows * chunks; i += 2) {
    const int block = i / chunks, chunk = (group - 1) * chunks + i % chunks;
    u32 words[4];
    TILE_UNROLL
    for (int word = 0; word < 4; ++word) memcpy(&words[word], &tile.x[i * 4 + word * 2], 4);
    const int panel = chunk / P::chunks, at = (chunk % P::chunks + lane() / 16) ^ exchange;
    store_matrices(to + panel * P::panel_bytes + (block * 64 + row) * P::chunks * 16 + at * 16, words[0],
                   words[1], words[2], words[3], line);
  }
  fence_async(line);
  synchronize_groups<P::threads>(line);
  return to;
}

}  // namespace tile
