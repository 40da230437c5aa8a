// Atomic addition of tiles to memory.
#pragma once
#include "cuda/device/atomics.cuh"

namespace tile {

template <int vector, int flags, class T, class L, class Window>
TILE void add_window(const Window& window, const Tile<T, L>& from, int line) {
  TILE_UNROLL
  for (int r = 0; r < L::registers; r += vector) {
    if (!window.template inside<flags>(r)) continue;
    if constexpr (vector == 2 && sizeof(T) == 2)
      atomic_add_global_bits<T>((u32*)window.address(r), pair_at(from, r), line);
    else if constexpr (vector == 4)
      atomic_add_global_four(window.address(r), &from.x[r], line);
    else if constexpr (vector == 2)
      atomic_add_global_pair(window.address(r), from.x[r], from.x[r + 1], line);
    else
      add_element(window.address(r), from.x[r], line);
  }
}

// Adds `vector` adjacent elements at once.
template <class L, int vector, int flags, class T, int n, class S>
TILE void add_tile(const Array<T, n, S>& array, typename Array<T, n, S>::Start start, const Tile<T, L>& from,
                   int line) {
  const Window<L, T, n, S> window(array, start);
  if (!stores<L>()) return;
  if constexpr (flags & in_bounds) return add_window<vector, flags>(window, from, line);
  // `inside` is uniform over the threads: if no edge is near, the additions need no branch.
  bool inside = true;
  TILE_UNROLL
  for (int axis = 0; axis < n; ++axis)
    inside = inside && start[axis] >= array.first[axis] && start[axis] + L::extent(axis) <= array.size[axis];
  if (inside)
    add_window<vector, flags | in_bounds>(window, from, line);
  else
    add_window<vector, flags>(window, from, line);
}

}  // namespace tile
