// The indices of counted loops.
#pragma once
#include "cuda/device/types.cuh"

namespace tile {

// Returns the index `iterations` iterations after i, or `high` if the loop has ended by then. The sum could
// overflow T past `high`.
template <int iterations, class T>
TILE T index_after(T i, T high, T step) {
  Unsigned<T> left = i < high ? (Unsigned<T>)high - (Unsigned<T>)i : 0;
  TILE_UNROLL
  for (int iteration = 0; iteration < iterations; ++iteration) {
    if (left <= (Unsigned<T>)step) return high;
    left -= step;
    i += step;
  }
  return i;
}

}  // namespace tile
