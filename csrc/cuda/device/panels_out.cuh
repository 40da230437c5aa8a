// Stores of accumulators through panels of shared memory: a group writes a panel, and the copy unit moves it to
// the array while the group goes on. From sm_90 on.
//
// P describes a store: blocks of 64 rows of a group, panels of such a block, columns of a panel, 16-byte chunks
// of a panel's row, the position of the rows among the coordinates, the first panel's number in the block of the
// grid, and the buffers, which panels take in turn: how many a group has, the bytes of each, and the offset of
// the first. waits_all: the panel before the first one has the same buffer.
#pragma once
#include "cuda/device/matrices_out.cuh"
#include "cuda/device/tensor_copies.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// Writes two chunks, from `chunk` on, of the rows of a panel with 64 rows. The thread has the elements from
// register `first` on: those of 8 columns are in four registers, two of a row and two of the row 8 below.
template <class P, class T, class L>
TILE void write_chunks(const Tile<T, L>& tile, int first, int chunk, SharedAddress panel, int line) {
  static_assert(sizeof(T) == 2, "matrices have elements of 16 bits");
  const int row = warp() * 16 + lane() % 16, exchange = row / (8 / P::chunks) % P::chunks;
  u32 words[4];
  TILE_UNROLL
  for (int i = 0; i < 4; ++i) memcpy(&words[i], &tile.x[first + i * 2], 4);
  const int at = (chunk + lane() / 16) ^ exchange;
  store_matrices(panel + row * P::chunks * 16 + at * 16, words[0], words[1], words[2], words[3], line);
}

// `at` is the tile's first element, in the order of the map's coordinates.
template <class P, class T, class L, int rank>
TILE void store_panels(const Tile<T, L>& tile, const TensorMap& map, SharedAddress memory, int group,
                       const i32 (&at)[rank], int line) {
  TILE_UNROLL
  for (int i = 0; i < P::rows * P::panels; ++i) {
    const int block = i / P::panels, panel = i % P::panels;
    const int number = (P::first + i) % P::buffers;
    const SharedAddress buffer = memory + P::offset + ((group - 1) * P::buffers + number) * P::bytes;
    // The store that read this buffer last is the oldest of the group's.
    if (thread() == 0) {
      if (P::waits_all && i == 0)
        wait_for_tensor_reads<0>(line);
      else
        wait_for_tensor_reads<P::buffers - 1>(line);
    }
    synchronize(line);
    TILE_UNROLL
    for (int chunk = 0; chunk < P::chunks; chunk += 2)
      write_chunks<P>(tile, (i * P::chunks + chunk) * 4, chunk, buffer, line);
    fence_async(line);
    synchronize(line);
    if (thread() == 0) {
      i32 to[rank];
      TILE_UNROLL
      for (int axis = 0; axis < rank; ++axis) to[axis] = at[axis];
      to[0] += panel * P::columns;
      to[P::row] += ((group - 1) * P::rows + block) * 64;
      store_tensor<rank>(map, buffer, to, line);
      commit_tensor_stores(line);
    }
  }
}
// Returns the tile after a barrier of the group. ptxas cannot tell that the barrier's result does not change the
// tile. Otherwise it would compute all panels before it stores the first, in more registers than there are.
template <class T, class L>
TILE Tile<T, L> after_barrier(Tile<T, L> tile, int line) {
  const bool never = synchronize_or(false, line);
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) tile.x[r] = never ? T(0) : tile.x[r];
  return tile;
}
// Shared memory must not end before the copy unit has read it.
TILE void wait_for_panels(int line) {
  if (thread() == 0) wait_for_tensor_reads<0>(line);
}

}  // namespace tile
