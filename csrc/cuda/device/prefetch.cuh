// Prefetched tiles in shared memory: each thread copies and reads its own elements.
#pragma once
#include "cuda/device/memory.cuh"

namespace tile {

// The 16-byte vectors of all threads are interleaved, so that there are no bank conflicts.
template <class T, class L, int threads>
struct PrefetchedTile {
  static constexpr int vector = 16 / sizeof(T);
  char* memory;
  TILE char* slot(int r) const { return memory + (r / vector * threads + thread()) * 16; }
  // Starts the copy; elements outside the array are 0. No edge splits a vector.
  template <int n, class S>
  TILE void copy(const Array<T, n, S>& from, typename Array<T, n, S>::Start start, int line) const {
    const Window<L, T, n, S> window(from, start);
    TILE_UNROLL
    for (int r = 0; r < L::registers; r += vector)
      copy_async_if(slot(r), window.address(r), window.template holds<vector, whole_vectors>(r), line);
  }
  TILE Tile<T, L> all(int line) const {
    Tile<T, L> to;
    TILE_UNROLL
    for (int r = 0; r < L::registers; r += vector) {
      const auto words = load_shared<Words<16>>(slot(r), line);
      memcpy(&to.x[r], &words, 16);
    }
    return to;
  }
};

}  // namespace tile
