// Rows of arrays at computed indices along one axis, in vectors along another; elements at raw offsets.
#pragma once
#include "cuda/device/memory.cuh"

namespace tile {

// As a Window, for one thread, whose place along `along` is a row of its own for each register.
template <class L, int along, class T, int n, class S>
struct RowWindow {
  T* data;  // of the thread's first element, in row 0
  Reach reaches[n];
  const Array<T, n, S>& array;

  TILE RowWindow(const Array<T, n, S>& from, typename Array<T, n, S>::Start start)
      : data(from.data), array(from) {
    TILE_UNROLL
    for (int axis = 0; axis < n; ++axis) {
      if (axis == along) continue;
      const i32 part = L::thread(axis);
      data = from.moved(data, start[axis] + part, axis);
      reaches[axis] = reach(start[axis], part, from.first[axis], from.size[axis]);
    }
  }
  TILE bool inside(int r, i64 row) const {
    bool all = row >= array.first[along] && row < array.size[along];
    TILE_UNROLL
    for (int axis = 0; axis < n; ++axis) {
      if (L::padded) all = all && L::thread(axis) + L::element(axis, r) < L::extent(axis);
      if (axis != along) all = all && reaches[axis].inside(L::element(axis, r));
    }
    return all;
  }
  template <int vector, int flags>
  TILE bool holds(int r, i64 row) const {
    bool all = inside(r, row);
    if (vector > 1 && !(flags & whole_vectors)) all = all && inside(r + vector - 1, row);
    return all;
  }
  TILE T* address(int r, i64 row) const {
    T* at = array.moved(data, (i32)row, along);
    TILE_UNROLL
    for (int axis = 0; axis < n; ++axis)
      if (axis != along) at = array.moved(at, L::element(axis, r), axis);
    return at;
  }
};

// Plan: along, the axis of the rows; of(r), the register of `rows` for register r. Vectors as load's; they
// run along another axis.
template <class L, int vector, int flags, class Plan, class T, int n, class S, class I, class LR>
TILE Tile<T, L> gather_rows(const Array<T, n, S>& array, typename Array<T, n, S>::Start start, T pad, int line,
                            const Tile<I, LR>& rows) {
  const RowWindow<L, Plan::along, T, n, S> window(array, start);
  Tile<T, L> to;
  constexpr bool constant = flags & constant_array;
  TILE_UNROLL
  for (int r = 0; r < L::registers; r += vector) {
    const i64 row = (i64)rows.x[Plan::of(r)];
    const bool all = window.template holds<vector, flags>(r, row);
    Packed<vector * sizeof(T), T> packed;
    TILE_UNROLL
    for (int i = 0; i < vector; ++i) packed.elements[i] = pad;
    packed.words = load_global<vector * sizeof(T), constant>(window.address(r, row), all, packed.words, line);
    if (vector > 1 && !(flags & whole_vectors) && !all) {
      TILE_UNROLL
      for (int i = 0; i < vector; ++i)
        packed.elements[i] =
            load_element<constant>(window.address(r + i, row), window.inside(r + i, row), pad, line);
    }
    memcpy(&to.x[r], &packed.words, vector * sizeof(T));
  }
  return to;
}
template <int vector, int flags, class Plan, class T, class L, int n, class S, class I, class LR>
TILE void scatter_rows(const Array<T, n, S>& array, typename Array<T, n, S>::Start start,
                       const Tile<T, L>& from, int line, const Tile<I, LR>& rows) {
  const RowWindow<L, Plan::along, T, n, S> window(array, start);
  if (!stores<L>()) return;
  TILE_UNROLL
  for (int r = 0; r < L::registers; r += vector) {
    const i64 row = (i64)rows.x[Plan::of(r)];
    const bool all = window.template holds<vector, flags>(r, row);
    Packed<vector * sizeof(T), T> packed;
    TILE_UNROLL
    for (int i = 0; i < vector; ++i) packed.elements[i] = from.x[r + i];
    store_global(window.address(r, row), packed.words, all, line);
    if (vector > 1 && !(flags & whole_vectors) && !all) {
      TILE_UNROLL
      for (int i = 0; i < vector; ++i)
        store_element(window.address(r + i, row), from.x[r + i], window.inside(r + i, row), line);
    }
  }
}

// Elements at offsets from the array's first.
template <int flags, class L, class T, int n, class S, class Mask, class I>
TILE Tile<T, L> load_offset(const Array<T, n, S>& array, T pad, int line, Mask mask,
                            const Tile<I, L>& offset) {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r)
    to.x[r] = load_element<(flags & constant_array) != 0>(array.data + (i64)offset.x[r],
                                                          valid<L>(r) && mask(r), pad, line);
  return to;
}
template <class L, class T, int n, class S, class Mask, class I>
TILE void store_offset(const Array<T, n, S>& array, const Tile<T, L>& from, int line, Mask mask,
                       const Tile<I, L>& offset) {
  if (!stores<L>()) return;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r)
    store_element(array.data + (i64)offset.x[r], from.x[r], valid<L>(r) && mask(r), line);
}

}  // namespace tile
