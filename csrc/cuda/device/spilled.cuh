// Spilled tiles: loop-carried tiles in shared memory, for kernels that are short of registers. Each thread
// has its own elements.
#pragma once
#include "cuda/device/tile.cuh"

namespace tile {

// The 16-byte vectors of all threads are interleaved, so that there are no bank conflicts.
template <class T, int threads>
struct SpilledElements {
  char* memory;
  int line;
  TILE T* at(int r) const {
    constexpr int each = 16 / sizeof(T);
    return (T*)(memory + (r / each * threads + warp() * 32 + lane()) * 16) + r % each;
  }
  TILE T operator[](int r) const { return load_shared<T>(at(r), line); }
};
template <class T, class L, int threads>
struct Spilled {
  SpilledElements<T, threads> x;
  // All loads precede the stores: a store between two loads would delay the second.
  TILE void operator=(const Tile<T, L>& from) {
    TILE_UNROLL
    for (int r = 0; r < L::registers; ++r) store_shared(x.at(r), from.x[r], x.line);
  }
  TILE Tile<T, L> all() const {
    Tile<T, L> to;
    TILE_UNROLL
    for (int r = 0; r < L::registers; ++r) to.x[r] = x[r];
    return to;
  }
};

}  // namespace tile
