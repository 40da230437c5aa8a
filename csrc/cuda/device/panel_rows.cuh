// Stores of accumulators through panels of shared memory, of which each warp writes its own rows to the
// array: for arrays that the copy unit cannot address, as with an odd number of columns. In registers a warp
// has 16 bytes each of 8 rows; through a panel it writes adjacent words of a row. From sm_90 on.
//
// P describes a store as in panels_out.cuh.
#pragma once
#include "cuda/device/memory.cuh"
#include "cuda/device/panels_out.cuh"
#include "cuda/device/tensor_cores.cuh"
#include "cuda/device/warps.cuh"

namespace tile {

// Stores two elements, 2 * word and the next, of a row of so many words, each word by one of adjacent lanes.
// `at` is where the first of the two belongs. Where that is in the middle of a word of memory, a lane stores
// its second element together with the first one of the next lane.
template <int words>
TILE void store_row_word(u16* at, u32 both, u32 next, int word, Reach row, Reach column, int line) {
  const bool between = ((u64)at & 2) != 0, last = word == words - 1, there = row.inside(0);
  const int first = between ? 1 : 0;
  const bool pair = there && column.inside(first) && column.inside(first + 1) && !(between && last);
  store_global(at + first, Words<4>{{between ? both >> 16 | next << 16 : both}}, pair, line);
  // Elements that are in no such pair: at the ends of the row, and at the array's edges.
  const bool low =
                 there && column.inside(0) && (between ? word == 0 || !column.inside(-1) : !column.inside(1)),
             high = there && column.inside(1) && (between ? last || !column.inside(2) : !column.inside(0));
  store_global(at, Words<2>{{(u16)both}}, low, line);
  store_global(at + 1, Words<2>{{(u16)(both >> 16)}}, high, line);
}

template <class P, class T, class L, class S>
TILE void store_panel_rows(const Tile<T, L>& tile, const Array<T, 2, S>& array,
                           typename Array<T, 2, S>::Start start, SharedAddress memory, int group, int line) {
  constexpr int words = P::chunks * 4, rows = 32 / words;  // a warp has so many rows at once
  TILE_UNROLL
  for (int i = 0; i < P::rows * P::panels; ++i) {
    const SharedAddress buffer =
        memory + P::offset + ((group - 1) * P::buffers + (P::first + i) % P::buffers) * P::bytes;
    // A warp reads the rows that it has written, and no others.
    synchronize_warp(line);
    TILE_UNROLL
    for (int chunk = 0; chunk < P::chunks; chunk += 2)
      write_chunks<P>(tile, (i * P::chunks + chunk) * 4, chunk, buffer, line);
    synchronize_warp(line);
    const int word = lane() % words, column = i % P::panels * P::columns + word * 2;
    const Reach across = reach(start[1], column, array.first[1], array.size[1]);
    // Several words are read before the first is stored, so that their latencies overlap.
    constexpr int steps = 16 / rows, at_once = steps < 8 ? steps : 8;
    TILE_UNROLL
    for (int r = 0; r < steps; r += at_once) {
      const int of_warp = warp() * 16 + lane() / words;
      u32 both[at_once], next[at_once];
      TILE_UNROLL
      for (int k = 0; k < at_once; ++k) {
        const int of_panel = of_warp + (r + k) * rows, exchange = of_panel / (8 / P::chunks) % P::chunks;
        load_word(both[k], buffer + of_panel * P::chunks * 16 + (word / 4 ^ exchange) * 16 + word % 4 * 4,
                  line);
      }
      TILE_UNROLL
      for (int k = 0; k < at_once; ++k) next[k] = shuffle(both[k], (lane() + 1) % 32, line);
      TILE_UNROLL
      for (int k = 0; k < at_once; ++k) {
        const int row = ((group - 1) * P::rows + i / P::panels) * 64 + of_warp + (r + k) * rows;
        T* at = array.moved(array.moved(array.data, start[0] + row, 0), start[1] + column, 1);
        store_row_word<words>((u16*)at, both[k], next[k], word,
                              reach(start[0], row, array.first[0], array.size[0]), across, line);
      }
    }
  }
}

}  // namespace tile
