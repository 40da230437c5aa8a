// Left operands that the groups compute together: each writes its rows, or its columns, to shared memory, and
// products read all of them. From sm_90 on.
//
// P describes an operand: blocks of 64 rows of a group, whether groups divide columns, the columns of a group,
// 16-byte chunks of a panel's row, the bytes of a panel and of the tile, the offset of the first of two buffers,
// and the threads of the groups.
#pragma once
#include "cuda/device/panels_out.cuh"

namespace tile {

// Writes a tile to the next buffer and waits for the other groups. The buffer's readers have ended: a group's
// products of an iteration end before it waits in the next one.
template <class P, class T, class L>
TILE SharedAddress put_shared(const Tile<T, L>& tile, SharedAddress memory, int& buffer, int group, int line) {
  const SharedAddress to = memory + P::offset + buffer * P::bytes;
  buffer ^= 1;
  constexpr int own = P::columns / 8;  // chunks of a row
  const int first_block = P::by_columns ? 0 : (group - 1) * P::rows,
            first_chunk = P::by_columns ? (group - 1) * own : 0;
  TILE_UNROLL
  for (int i = 0; i < P::rows * own; i += 2) {
    const int block = first_block + i / own, chunk = first_chunk + i % own, panel = chunk / P::chunks;
    write_chunks<P>(tile, i * 4, chunk % P::chunks,
                    to + panel * P::panel_bytes + block * 64 * P::chunks * 16, line);
  }
  fence_async(line);
  synchronize_groups<P::threads>(line);
  return to;
}

}  // namespace tile
