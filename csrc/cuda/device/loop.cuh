// The indices of counted loops.
#pragma once
#include "cuda/device/types.cuh"

namespace tile {

// The index `iterations` iterations behind i, or `high` where the loop has ended by then: a sum that passes `high` may
// be no number of T.
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
