// The indices of counted loops.
#pragma once
#include "cuda/device/types.cuh"

namespace tile {

// The index `turns` turns behind i, or `high` where the loop has ended by then: a sum that passes `high` may
// be no number of T.
template <int turns, class T>
TILE T index_after(T i, T high, T step) {
  Unsigned<T> left = i < high ? (Unsigned<T>)high - (Unsigned<T>)i : 0;
  TILE_UNROLL
  for (int turn = 0; turn < turns; ++turn) {
    if (left <= (Unsigned<T>)step) return high;
    left -= step;
    i += step;
  }
  return i;
}

}  // namespace tile
