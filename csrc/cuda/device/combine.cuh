// Reductions and scans with a function of the kernel's, and the place of an extreme: a thread walks a line of
// elements in shared memory, in order.
#pragma once
#include "cuda/device/math.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// A tile in row-major order seen as [outer, size, inner]: lines along the middle axis.
template <int outer, int size, int inner>
struct Lines {
  static constexpr int count = outer * inner, length = size;
  TILE static int place(int line, int step) { return (line / inner * size + step) * inner + line % inner; }
};

template <class Line>
TILE int step_of(int k, bool reverse) {
  return reverse ? Line::length - 1 - k : k;
}

template <class Line, bool scan, bool reverse, class Combine, class T>
TILE void combine_line(Combine combine, int source, int line, T* memory, T sum) {
  TILE_LOOP for (int k = 1; k < Line::length; ++k) {
    T* at = memory + Line::place(line, step_of<Line>(k, reverse));
    combine(sum, load_shared<T>(at, source));
    if (scan) store_shared(at, sum, source);
  }
  if (!scan) store_shared(memory + Line::place(line, 0), sum, source);
}
template <class Line, bool scan, bool reverse, class Combine, class T, class U>
TILE void combine_line(Combine combine, int source, int line, T* memory, U* others, T sum, U other) {
  TILE_LOOP for (int k = 1; k < Line::length; ++k) {
    const int place = Line::place(line, step_of<Line>(k, reverse));
    combine(sum, other, load_shared<T>(memory + place, source), load_shared<U>(others + place, source));
    if (!scan) continue;
    store_shared(memory + place, sum, source);
    store_shared(others + place, other, source);
  }
  if (scan) return;
  store_shared(memory + Line::place(line, 0), sum, source);
  store_shared(others + Line::place(line, 0), other, source);
}

// combine(accumulated…, next…) changes its first half. A reduction leaves its result at the line's first
// place, a scan every running value in place.
template <class Line, bool scan, bool reverse, int threads, class Combine, class... T>
TILE void combine_lines(Combine combine, int source, T*... memory) {
  synchronize(source);
  TILE_LOOP for (int line = thread(); line < Line::count; line += threads) combine_line<Line, scan, reverse>(
      combine, source, line, memory...,
      load_shared<T>(memory + Line::place(line, step_of<Line>(0, reverse)), source)...);
}
// The index of the first extreme of each line; NaN is skipped, and of nothing but NaN it is 0.
template <class Line, bool largest, int threads, class T>
TILE void arg_lines(int source, const T* memory, i32* places) {
  synchronize(source);
  TILE_LOOP for (int line = thread(); line < Line::count; line += threads) {
    int best = 0;
    bool any = false;
    auto top = LaneOf<T>::in(load_shared<T>(memory + Line::place(line, 0), source));
    TILE_LOOP for (int k = 0; k < Line::length; ++k) {
      const auto x = LaneOf<T>::in(load_shared<T>(memory + Line::place(line, k), source));
      if (x != x || (any && !(largest ? x > top : x < top))) continue;
      any = true;
      top = x;
      best = k;
    }
    store_shared(places + line, best, source);
  }
}

}  // namespace tile
