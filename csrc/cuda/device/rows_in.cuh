// Rows of numbers that a producer has copied to the stages of a ring: each thread reads its elements. From sm_90
// on.
#pragma once
#include "cuda/device/rings.cuh"
#include "cuda/device/tensor_cores.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// Returns true if each pair of registers holds adjacent elements, the first at an even place.
template <class L>
TILE constexpr bool holds_pairs() {
  bool pairs = L::registers % 2 == 0;
  for (int r = 0; r + 1 < L::registers; r += 2)
    pairs = pairs && L::element(0, r) % 2 == 0 && L::element(0, r + 1) == L::element(0, r) + 1;
  return pairs;
}
// Threads begin at even places where registers hold pairs.
template <class R, class T, class L>
TILE Tile<T, L> read_row(const Ring& ring, SharedAddress memory, int line) {
  static_assert(sizeof(T) == 4, "rows have elements of 32 bits");
  const SharedAddress from = stage_address<R>(ring, memory) + L::thread(0) * 4;
  Tile<T, L> row;
  if constexpr (holds_pairs<L>()) {
    TILE_UNROLL
    for (int r = 0; r < L::registers; r += 2) {
      f64 pair;
      load_word(pair, from + L::element(0, r) * 4, line);
      memcpy(&row.x[r], &pair, 8);
    }
  } else {
    TILE_UNROLL
    for (int r = 0; r < L::registers; ++r) {
      u32 word;
      load_word(word, from + L::element(0, r) * 4, line);
      memcpy(&row.x[r], &word, 4);
    }
  }
  return row;
}

}  // namespace tile
