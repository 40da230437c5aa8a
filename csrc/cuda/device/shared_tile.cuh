// Tiles in shared memory for the tensor cores: rows of 16-byte chunks, which are permuted within a row so
// that neither writes of rows nor reads of 8 rows at a time cause bank conflicts.
#pragma once
#include "cuda/device/memory.cuh"

namespace tile {

// A tile of `rows` rows and `width` columns; the width is a multiple of a chunk.
template <class T, int rows_, int width_>
struct SharedTile {
  using Element = T;
  static constexpr int rows = rows_, width = width_;
  static constexpr int chunk = 16 / sizeof(T), chunks = width / chunk;
  // 8 chunks cover all banks. `swizzle` is the largest power of two that divides `chunks`, at most 8, so each
  // of `together` consecutive rows begins at a different multiple of `swizzle`. Chunks are permuted within
  // `swizzle`. If the number of chunks is odd, 8 rows begin at 8 different chunks, and nothing is permuted.
  static constexpr int swizzle = chunks % 8 == 0 ? 8 : chunks & -chunks, together = 8 / swizzle;
  // The number of rows after which the permutation repeats.
  static constexpr int period = swizzle * together * (sizeof(T) == 1 && swizzle > 2 ? 2 : 1);
  char* memory;  // aligned to `swizzle` chunks

  // Chunk c of a row is stored at chunk c ^ exchange(row). Accesses that run together should cover all banks:
  // one chunk of 8 rows (ldmatrix); if k crosses rows, for bytes one chunk of rows 0, 1, 4, 5, 8, 9, 12 and
  // 13, and for 4 and 8 bytes two chunks of 4 rows. The function is linear over the row's bits, so that
  // constant distances can be split off. It covers all banks for any width, except for bytes with k across
  // rows whose number of chunks is not a multiple of 4: there two of those rows share a bank.
  TILE static constexpr int exchange(int row) {
    if (swizzle == 1 || sizeof(T) == 2) return row / together & (swizzle - 1);
    if (sizeof(T) == 1) {
      const int high = (row >> 1 ^ row >> 3) & 1, middle = row >> 2 & 1;
      return swizzle == 8 ? high << 2 | middle << 1 | (row & 1) : swizzle == 4 ? high << 1 | middle : middle;
    }
    const int at = row / together;
    return swizzle == 8   ? (at & 1) << 2 | (at & 2) | (at >> 2 & 1)
           : swizzle == 4 ? (at & 1) << 1 | (at >> 1 & 1)
                        : at & 1;
  }
  TILE char* address(int row, int c) const { return memory + (row * chunks + (c ^ exchange(row))) * 16; }
};

// Starts the copy of a tile of an array. Elements outside the array, or all if the tile is not wanted, are 0.
// A thread copies one chunk of some rows; the last threads copy none if the chunks of a row do not divide the
// threads evenly. `whole_vectors` means that no edge splits a chunk. afresh: each copy computes the thread's
// part of the addresses again, for kernels that have no registers left to keep it.
template <int threads, int flags, bool afresh = false, class To, class T, class S>
TILE void copy_tile_async(To to, const Array<T, 2, S>& from, typename Array<T, 2, S>::Start start,
                          bool wanted, int line) {
  constexpr int chunk = To::chunk, across = To::chunks < threads ? To::chunks : threads,
                down = threads / across;
  int own_row = thread() / across, own_chunk = thread() % across;
  if constexpr (afresh) {
    u32 number = (u32)thread();
    keep_here(number);
    own_row = (int)(number / across), own_chunk = (int)(number % across);
  }
  if (threads % across != 0 && own_row >= down) return;
  const Reach rows = reach(start[0], own_row, from.first[0], from.size[0]);
  const Reach columns = reach(start[1], own_chunk * chunk, from.first[1], from.size[1]);
  T* const own = from.moved(from.data + (start[1] + own_chunk * chunk), start[0] + own_row, 0);
  char* const own_address = to.address(own_row, own_chunk);
  TILE_UNROLL
  for (int x = 0; x < To::chunks; x += across) {
    if (x + across > To::chunks && x + own_chunk >= To::chunks) continue;
    const u32 left = wanted && columns.inside(x * chunk) ? columns.count - (u32)(columns.at + x * chunk) : 0;
    const int bytes = left < (u32)chunk ? (int)left * (int)sizeof(T) : 16;
    TILE_UNROLL
    for (int y = 0; y < To::rows; y += down) {
      if (y + down > To::rows && y + own_row >= To::rows) continue;
      T* const source = from.moved(own + x * chunk, y, 0);
      char* const address = across == To::chunks && down % To::period == 0
                              ? own_address + y * To::chunks * 16
                            : afresh && down % To::period == 0
                              ? to.address(own_row, x + own_chunk) + y * To::chunks * 16
                              : to.address(y + own_row, x + own_chunk);
      if (flags & whole_vectors)
        copy_async_if(address, source, left && rows.inside(y), line);
      else
        copy_async(address, source, rows.inside(y) ? bytes : 0, line);
    }
  }
}
// The same for an array whose rows are the tile's columns: its unit axis is the first.
template <int threads, int flags, bool afresh = false, class To, class T, class S>
TILE void copy_transposed_async(To to, const Array<T, 2, S>& from, typename Array<T, 2, S>::Start start,
                            bool wanted, int line) {
  copy_tile_async<threads, flags, afresh>(to, permute_array<1, 0>(from), {start[1], start[0]}, wanted, line);
}

// Writes a tile from registers, `together` adjacent elements at once: 4 bytes, or one element.
template <int together, class S, class T, class L>
TILE void write_tile(S to, const Tile<T, L>& from, int line) {
  constexpr int chunk = S::chunk;
  if (!owner<L>()) return;
  TILE_UNROLL
  for (int r = 0; r < L::registers; r += together) {
    if (!valid<L>(r)) continue;
    const int row = L::thread(0) + L::element(0, r), column = L::thread(1) + L::element(1, r);
    char* address = to.address(row, column / chunk) + column % chunk * sizeof(T);
    if constexpr (together > 1)
      store_shared(address, pair_at(from, r), line);
    else
      store_shared(address, from.x[r], line);
  }
}

}  // namespace tile
