// Elements into another layout: between the registers of a thread, or through shared memory.
#pragma once
#include "cuda/device/tile.cuh"

namespace tile {

// Register r of the result is register map(r) of the same thread.
template <class L, class T, class From, class Map>
TILE Tile<T, L> registers(const Tile<T, From>& from, Map map) {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = from.x[map(r)];
  return to;
}

template <int... weights>
struct Weights {
  TILE static constexpr int of(int axis) {
    constexpr int all[] = {weights..., 0};
    return all[axis];
  }
};
template <class L, class Weights>
TILE i32 linear(int r) {
  i32 at = 0;
  TILE_UNROLL
  for (int axis = 0; axis < L::rank; ++axis)
    at += (L::thread(axis) + L::element(axis, r)) * Weights::of(axis);
  return at;
}

template <class Weights, class T, class L>
TILE void write_shared(T* memory, const Tile<T, L>& from, int line) {
  if (!owner<L>()) return;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r)
    if (valid<L>(r)) store_shared(memory + linear<L, Weights>(r), from.x[r], line);
}
// Waits for all writes before, and for all reads after.
template <class L, class Weights, class T>
TILE Tile<T, L> read_shared(const T* memory, int line) {
  synchronize(line);
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) {
    to.x[r] = T();
    if (valid<L>(r)) to.x[r] = load_shared<T>(memory + linear<L, Weights>(r), line);
  }
  synchronize(line);
  return to;
}

// Elements by their places, which are written at one layout's weights and read at another's.
template <class L, class FromWeights, class ToWeights, class T, class From>
TILE Tile<T, L> through_shared(const Tile<T, From>& from, int line) {
  T* memory = (T*)shared_memory();
  write_shared<FromWeights>(memory, from, line);
  return read_shared<L, ToWeights>(memory, line);
}

// Two tiles joined along an axis: places in row-major order of the result, y's counted from `second`.
template <class L, class Weights, class T, class X, class Y>
TILE Tile<T, L> cat(const Tile<T, X>& x, const Tile<T, Y>& y, int second, int line) {
  T* memory = (T*)shared_memory();
  write_shared<Weights>(memory, x, line);
  write_shared<Weights>(memory + second, y, line);
  return read_shared<L, Weights>(memory, line);
}

}  // namespace tile
