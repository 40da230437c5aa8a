// Tiles of a loop's next iteration on their way to shared memory: each thread's elements are its own.
#pragma once
#include "cuda/device/memory.cuh"

namespace tile {

// Vectors of 16 bytes of all threads stand side by side: no two threads meet in a bank.
template <class T, class L, int threads>
struct PrefetchedTile {
  static constexpr int vector = 16 / sizeof(T);
  char* memory;
  TILE char* slot(int r) const { return memory + (r / vector * threads + thread()) * 16; }
  // Not waited for; what lies outside is 0. No edge cuts a vector in two.
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
