// Prints values from the one thread that writes the text.
#pragma once
#include "cuda/device/types.cuh"

namespace tile {

// Conversions to printf's argument types.
template <class T>
TILE long long as_signed(T x) {
  return x;
}
template <class T>
TILE unsigned long long as_unsigned(T x) {
  return (Unsigned<T>)x;
}
template <class T>
TILE f64 as_floating(T x) {
  return LaneOf<T>::in(x);
}

// Prints a tile that is in memory in row-major order: "[[0, 1], [2, 3]]".
template <int... extents, class T, class Print>
TILE void print_tile(const T* memory, int line, Print print) {
  constexpr int rank = sizeof...(extents), shape[] = {extents..., 1};
  int count = 1;
  for (int axis = 0; axis < rank; ++axis) count *= shape[axis];
  TILE_LOOP for (int i = 0; i < count; ++i) {
    if (i) printf(", ");
    int opened = 0, closed = 0;
    for (int axis = rank - 1, inner = 1; axis >= 0; --axis) {
      inner *= shape[axis];
      opened += i % inner == 0;
      closed += (i + 1) % inner == 0;
    }
    while (opened--) printf("[");
    print(load_shared<T>(memory + i, line));
    while (closed--) printf("]");
  }
}

}  // namespace tile
