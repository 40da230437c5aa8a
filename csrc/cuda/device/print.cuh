// Text of values, by the one thread that writes it.
#pragma once
#include "cuda/device/types.cuh"

namespace tile {

TILE void print_text(const char* text) { printf("%s", text); }
template <class T>
TILE void print_signed(const char* conversion, T x) {
  printf(conversion, (long long)x);
}
template <class T>
TILE void print_unsigned(const char* conversion, T x) {
  printf(conversion, (unsigned long long)(Unsigned<T>)x);
}
TILE void print_floating(const char* conversion, f64 x) { printf(conversion, x); }
template <class T>
TILE void print_floating(const char* conversion, T x) {
  printf(conversion, (f64)LaneOf<T>::in(x));
}

// A tile that lies in memory in row-major order: "[[0, 1], [2, 3]]".
template <int... extents, class T, class Print>
TILE void print_tile(const T* memory, Print print, int line) {
  constexpr int rank = sizeof...(extents), shape[] = {extents..., 1};
  int count = 1;
  for (int axis = 0; axis < rank; ++axis) count *= shape[axis];
  TILE_LOOP for (int i = 0; i < count; ++i) {
    if (i) print_text(", ");
    int opened = 0, closed = 0;
    for (int axis = rank - 1, inner = 1; axis >= 0; --axis) {
      inner *= shape[axis];
      opened += i % inner == 0;
      closed += (i + 1) % inner == 0;
    }
    while (opened--) print_text("[");
    print(load_shared<T>(memory + i, line));
    while (closed--) print_text("]");
  }
}

}  // namespace tile
