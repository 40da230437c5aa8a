// Sub-tiles of tiles: by renaming registers if each thread has its part, else through shared memory.
#pragma once
#include "cuda/device/move.cuh"

namespace tile {

// Clamps an index to those of `count` sub-tiles along an axis.
template <int count, class I>
TILE i32 nearest_index(I index) {
  return clamped_index((i64)index, count - 1);
}

// Plan has: of(r), the sub-tile that register r belongs to; into(r), its register within the sub-tile.
template <class L, class Plan, class T, class From>
TILE Tile<T, L> extract(const Tile<T, From>& from, i32 at) {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = T();
  TILE_UNROLL
  for (int r = 0; r < From::registers; ++r)
    if (Plan::of(r) == at) to.x[Plan::into(r)] = from.x[r];
  return to;
}
template <class Plan, class T, class L, class From>
TILE Tile<T, L> insert(const Tile<T, L>& into, const Tile<T, From>& value, i32 at) {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = Plan::of(r) == at ? value.x[Plan::into(r)] : into.x[r];
  return to;
}

// Returns register r's offset within a sub-tile of these extents that begins at `start`, or -1 if it is
// outside.
template <class L, class Extents, class Weights>
TILE i32 offset_in(int r, const i32 (&start)[L::rank]) {
  i32 offset = 0;
  bool inside = valid<L>(r);
  TILE_UNROLL
  for (int axis = 0; axis < L::rank; ++axis) {
    const i32 at = L::thread(axis) + L::element(axis, r) - start[axis];
    inside = inside && (u32)at < (u32)Extents::of(axis);
    offset += at * Weights::of(axis);
  }
  return inside ? offset : -1;
}
// Waits like through_shared.
template <class L, class Extents, class Weights, class T, class From>
TILE Tile<T, L> extract_shared(const Tile<T, From>& from, const i32 (&start)[From::rank], char* memory,
                               int line) {
  if (owner<From>()) {
    TILE_UNROLL
    for (int r = 0; r < From::registers; ++r) {
      const i32 offset = offset_in<From, Extents, Weights>(r, start);
      if (offset >= 0) store_shared((T*)memory + offset, from.x[r], line);
    }
  }
  synchronize(line);
  return read_in_order<L, Weights>((const T*)memory, line);
}
template <class Extents, class Weights, class T, class L, class From>
TILE Tile<T, L> insert_shared(const Tile<T, L>& into, const Tile<T, From>& value,
                              const i32 (&start)[L::rank], char* memory, int line) {
  write_shared<Weights>((T*)memory, value, line);
  synchronize(line);
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) {
    const i32 offset = offset_in<L, Extents, Weights>(r, start);
    to.x[r] = into.x[r];
    if (offset >= 0) to.x[r] = load_shared<T>((T*)memory + offset, line);
  }
  return to;
}
// Inserts one element, which every thread has.
template <class Extents, class T, class L>
TILE Tile<T, L> insert_element(const Tile<T, L>& into, T value, const i32 (&start)[L::rank]) {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r)
    to.x[r] = offset_in<L, Extents, Extents>(r, start) >= 0 ? value : into.x[r];
  return to;
}

}  // namespace tile
