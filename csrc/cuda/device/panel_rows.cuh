// Stores of accumulators through panels of shared memory, of which each warp writes its own rows to the
// array: for arrays that the copy unit cannot address, as with an odd number of columns. In registers a warp
// has 16 bytes each of 8 rows; through a panel it writes whole rows, 16 bytes at a time. From sm_90 on.
//
// P describes a store as in panels_out.cuh.
#pragma once
#include "cuda/device/memory.cuh"
#include "cuda/device/panels_out.cuh"
#include "cuda/device/tensor_cores.cuh"
#include "cuda/device/warps.cuh"

namespace tile {

// Moves elements `first` to `first` + 7 of the 16 in eight words to the first four words.
TILE void take_eight(u32 (&words)[8], int first) {
  TILE_UNROLL
  for (int k = 0; k < 6; ++k) words[k] = first & 4 ? words[k + 2] : words[k];
  TILE_UNROLL
  for (int k = 0; k < 5; ++k) words[k] = first & 2 ? words[k + 1] : words[k];
  TILE_UNROLL
  for (int k = 0; k < 4; ++k) words[k] = (u32)(((u64)words[k + 1] << 32 | words[k]) >> (first & 1) * 16);
}

// A row of a panel in shared memory, and where it belongs. Its first `before` elements lie before the first
// multiple of 16 bytes in memory.
template <class P>
struct PanelRow {
  SharedAddress from;
  int exchange;  // its chunks are permuted
  u16* to;
  int before;
  bool there;

  TILE SharedAddress chunk(int i) const { return from + (i ^ exchange) * 16; }
  // Reads the 8 elements from `before` + 8 * i on; fewer if the row ends.
  TILE void read(u32 (&words)[8], int i, int line) const {
    load_words(words, chunk(i), line);
    load_words(words + 4, chunk(i + 1 < P::chunks ? i + 1 : i), line);
    take_eight(words, before);
  }
  TILE void store(const u32 (&words)[8], int i, Reach column, int line) const {
    const int at = before + i * 8;
    const bool all = there && at + 8 <= P::columns, whole = column.inside(at) && column.inside(at + 7);
    store_global(to + at, Words<16>{{words[0], words[1], words[2], words[3]}}, all && whole, line);
    if (!all || whole) return;
    TILE_UNROLL
    for (int k = 0; k < 8; ++k)  // the array ends here
      store_global(to + at + k, Words<2>{{(u16)(words[k / 2] >> k % 2 * 16)}}, column.inside(at + k), line);
  }
  // Stores the elements at the ends, which are 8 together or none: the lane stores those from `first` on, as
  // many apart as a row has lanes.
  TILE void store_ends(int first, Reach column, int line) const {
    TILE_UNROLL
    for (int k = 0; k < 8; k += P::chunks) {
      const int at = first + k < before ? first + k : P::columns - 8 + first + k;
      u32 both;
      load_word(both, chunk(at / 8) + at % 8 / 2 * 4, line);
      store_global(to + at, Words<2>{{(u16)(both >> at % 2 * 16)}}, there && before && column.inside(at),
                   line);
    }
  }
};

template <class P, class T, class L, class S>
TILE void store_panel_rows(const Tile<T, L>& tile, const Array<T, 2, S>& array,
                           typename Array<T, 2, S>::Start start, SharedAddress memory, int group, int line) {
  constexpr int rows = 32 / P::chunks;  // a warp has so many rows at once
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
    const int own = lane() % P::chunks, column = i % P::panels * P::columns;
    const Reach across = reach(start[1], column, array.first[1], array.size[1]);
    // Several rows are read before the first is stored, so that their latencies overlap.
    constexpr int steps = 16 / rows, at_once = steps < 2 ? steps : 2;
    TILE_UNROLL
    for (int r = 0; r < steps; r += at_once) {
      PanelRow<P> of_step[at_once];
      u32 words[at_once][8];
      TILE_UNROLL
      for (int k = 0; k < at_once; ++k) {
        const int of_panel = warp() * 16 + (r + k) * rows + lane() / P::chunks,
                  row = ((group - 1) * P::rows + i / P::panels) * 64 + of_panel;
        T* to = array.moved(array.moved(array.data, start[0] + row, 0), start[1] + column, 1);
        of_step[k] = {buffer + of_panel * P::chunks * 16, of_panel / (8 / P::chunks) % P::chunks, (u16*)to,
                      (int)(-(u64)to / 2 % 8), reach(start[0], row, array.first[0], array.size[0]).inside(0)};
        of_step[k].read(words[k], own, line);
      }
      TILE_UNROLL
      for (int k = 0; k < at_once; ++k) {
        of_step[k].store(words[k], own, across, line);
        of_step[k].store_ends(own, across, line);
      }
    }
  }
}

}  // namespace tile
