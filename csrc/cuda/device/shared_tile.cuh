// Tiles in shared memory for the tensor cores: rows of 16-byte chunks, which are exchanged within a row so
// that neither writes of rows nor reads of 8 rows at a time meet in a bank.
#pragma once
#include "cuda/device/memory.cuh"

namespace tile {

// `rows` of `width` elements; the width is a multiple of a chunk.
template <class T, int rows_, int width_>
struct SharedTile {
  static constexpr int rows = rows_, width = width_;
  static constexpr int chunk = 16 / sizeof(T), chunks = width / chunk;
  static constexpr int turns = chunks % 8 == 0 ? 8 : chunks & (chunks - 1) ? 1 : chunks;
  char* memory;  // begins at a multiple of `turns` chunks

  // Which chunk of memory holds chunk c of a row. 8 chunks are all banks; shorter rows share them.
  TILE static int exchanged(int row, int c) {
    constexpr int together = 8 / turns;
    return c ^ (row / together & (turns - 1));
  }
  TILE char* place(int row, int c) const { return memory + (row * chunks + exchanged(row, c)) * 16; }
};

// A tile of an array, not waited for; what lies outside is 0. A thread copies one chunk of some rows.
template <int threads, class S, class T>
TILE void copy_tile_async(S to, const Array<T, 2>& from, const i64 (&start)[2], int line) {
  static_assert(threads % S::chunks == 0 || S::chunks % threads == 0, "rows are dealt out unevenly");
  constexpr int across = S::chunks < threads ? S::chunks : threads, down = threads / across;
  const i64 first_row = start[0] - from.first[0], first_column = start[1] - from.first[1];
  const i64 rows = (i64)from.size[0] - from.first[0], columns = (i64)from.size[1] - from.first[1];
  const int own_row = thread() / across, own_chunk = thread() % across;
  const T* data = from.data + (start[0] + own_row) * from.stride[0] + start[1] + own_chunk * S::chunk;
  // The same for all threads: no edge is near.
  const bool whole = first_row >= 0 && first_row + S::rows <= rows && first_column >= 0 &&
                     first_column + S::width <= columns;
  if (whole) {
    TILE_UNROLL
    for (int y = 0; y < S::rows; y += down)
      if (S::rows % down == 0 || y + own_row < S::rows) {
        TILE_UNROLL
        for (int x = 0; x < S::chunks; x += across)
          copy_async(to.place(y + own_row, x + own_chunk), data + y * from.stride[0] + x * S::chunk, 16,
                     line);
      }
    return;
  }
  TILE_LOOP for (int y = own_row; y < S::rows; y += down) {
    TILE_LOOP for (int x = own_chunk; x < S::chunks; x += across) {
      const i64 row = first_row + y, column = first_column + x * S::chunk;
      const i64 left = row >= 0 && row < rows && column >= 0 ? columns - column : 0;
      const int bytes = left <= 0 ? 0 : left >= S::chunk ? 16 : (int)left * (int)sizeof(T);
      const T* source = data + (y - own_row) * from.stride[0] + (x - own_chunk) * S::chunk;
      copy_async(to.place(y, x), bytes ? source : from.data, bytes, line);
    }
  }
}
// The same of an array whose rows are the tile's columns: its unit axis is the first.
template <int threads, class S, class T>
TILE void copy_turned_async(S to, const Array<T, 2>& from, const i64 (&start)[2], int line) {
  copy_tile_async<threads>(to, permute_array<1, 0>(from), {start[1], start[0]}, line);
}

// From registers, `together` neighbours at once.
template <int together, class S, class T, class L>
TILE void write_tile(S to, const Tile<T, L>& from, int line) {
  constexpr int chunk = S::chunk;
  if (!owner<L>()) return;
  TILE_UNROLL
  for (int r = 0; r < L::registers; r += together) {
    if (!valid<L>(r)) continue;
    const int row = L::thread(0) + L::element(0, r), column = L::thread(1) + L::element(1, r);
    char* place = to.place(row, column / chunk) + column % chunk * sizeof(T);
    if constexpr (together == 2)
      store_shared(place, pair_at(from, r), line);
    else
      store_shared(place, from.x[r], line);
  }
}

}  // namespace tile
