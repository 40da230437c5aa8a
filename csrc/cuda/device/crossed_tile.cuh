// Tiles in shared memory whose rows cross those of their array: they are transposed as they are copied, so
// that products by FMA read adjacent elements of one step of k.
#pragma once
#include "cuda/device/memory.cuh"
#include "cuda/device/word_copies.cuh"

namespace tile {

// A row has an odd number of chunks: the copies of a warp, of 4 elements in each of 8 rows, then reach all
// banks.
template <class T, int rows_, int width_>
struct CrossedTile {
  using Element = T;
  static constexpr int rows = rows_, width = width_, chunk = 16 / sizeof(T), chunks = width / chunk | 1;
  static constexpr int swizzle = 1, period = 1;
  char* memory;
  TILE static constexpr int exchange(int) { return 0; }
};

// Starts the copy of a tile of an array, whose columns become the tile's rows. Elements outside the array, or
// all if the tile is not wanted, are 0. A warp copies 8 adjacent elements of 4 rows of the array at once,
// which are whole sectors of global memory. Each copy computes the thread's part of the addresses again:
// products by FMA leave no registers to keep it.
template <int threads, class To, class T, class S>
TILE void copy_crossed_async(To to, const Array<T, 2, S>& from, typename Array<T, 2, S>::Start start,
                             bool wanted, int line) {
  constexpr int deep = 8, down = threads / deep;
  static_assert(sizeof(T) == 4 && To::rows % deep == 0, "copies of words take 8 rows at a time");
  u32 number = (u32)thread();
  keep_here(number);
  const int own_row = (int)(number / deep), own_column = (int)(number % deep);
  const Reach rows = reach(start[0], own_row, from.first[0], from.size[0]);
  const Reach columns = reach(start[1], own_column, from.first[1], from.size[1]);
  T* const own = from.moved(from.data + (start[1] + own_column), start[0] + own_row, 0);
  char* const address = to.memory + own_column * (To::chunks * 16) + own_row * (int)sizeof(T);
  TILE_UNROLL
  for (int y = 0; y < To::width; y += down) {
    if (y + down > To::width && y + own_row >= To::width) continue;
    T* const source = from.moved(own, y, 0);
    const bool inside = wanted && rows.inside(y);
    TILE_UNROLL
    for (int x = 0; x < To::rows; x += deep)
      copy_word_async_if(address + x * (To::chunks * 16) + y * (int)sizeof(T), source + x,
                         inside && columns.inside(x), line);
  }
}
// The same for an array whose columns are the tile's columns: its unit axis is the first.
template <int threads, class To, class T, class S>
TILE void copy_crossed_transposed_async(To to, const Array<T, 2, S>& from,
                                        typename Array<T, 2, S>::Start start, bool wanted, int line) {
  copy_crossed_async<threads>(to, permute_array<1, 0>(from), {start[1], start[0]}, wanted, line);
}

}  // namespace tile
