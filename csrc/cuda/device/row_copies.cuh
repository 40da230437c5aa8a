// Copies of rows at computed indices to tiles in shared memory.
#pragma once
#include "cuda/device/rows.cuh"
#include "cuda/device/shared_tile.cuh"

namespace tile {

// Starts the copy of a tile whose row indices are in registers; L says which chunks a thread copies. Rows
// outside the array, or all if the tile is not wanted, are 0.
template <class L, int flags, class Plan, class To, class T, class S, class I, class LR>
TILE void copy_rows_async(To to, const Array<T, 2, S>& from, typename Array<T, 2, S>::Start start,
                          bool wanted, int line, const Tile<I, LR>& rows) {
  if (!owner<L>()) return;
  constexpr int chunk = To::chunk;
  const RowWindow<L, Plan, T, 2, S, I, LR> window(from, start, rows);
  TILE_UNROLL
  for (int r = 0; r < L::registers; r += chunk) {
    const int row = L::thread(0) + L::element(0, r), column = L::thread(1) + L::element(1, r);
    if (L::padded && (row >= L::extent(0) || column >= L::extent(1))) continue;
    char* const address = to.address(row, column / chunk);
    const bool there = wanted && window.template inside<flags>(r);
    if (flags & whole_vectors) {
      copy_async_if(address, window.address(r), there, line);
    } else {
      const u32 left = there ? window.reaches[1].count - (u32)(window.reaches[1].at + L::element(1, r)) : 0;
      copy_async(address, window.address(r), (left < (u32)chunk ? (int)left : chunk) * (int)sizeof(T), line);
    }
  }
}

}  // namespace tile
