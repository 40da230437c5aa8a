// Left operands that the groups compute together: each writes its rows to shared memory, and products read all
// rows. From sm_90 on.
//
// P describes an operand: blocks of 64 rows of a group, panels of a row, 16-byte chunks of a panel's row, the
// bytes of a panel and of the tile, the offset of the first of two buffers, and the threads of the groups.
#pragma once
#include "cuda/device/panels_out.cuh"

namespace tile {

// Writes a tile to the next buffer and waits for the other groups. The buffer's readers have ended: a group's
// products of an iteration end before it waits in the next one.
template <class P, class T, class L>
TILE SharedAddress put_shared(const Tile<T, L>& tile, SharedAddress memory, int& buffer, int group, int line) {
  const SharedAddress to = memory + P::offset + buffer * P::bytes;
  buffer ^= 1;
  TILE_UNROLL
  for (int i = 0; i < P::rows * P::panels; ++i) {
    const int block = i / P::panels, panel = i % P::panels;
    write_panel<P>(tile, i * P::chunks * 4,
                   to + panel * P::panel_bytes + ((group - 1) * P::rows + block) * 64 * P::chunks * 16, line);
  }
  fence_async(line);
  synchronize_groups<P::threads>(line);
  return to;
}

}  // namespace tile
