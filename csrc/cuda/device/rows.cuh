// Rows of arrays at computed indices along one axis, in vectors along another; elements at raw offsets.
#pragma once
#include "cuda/device/memory.cuh"

namespace tile {

// Like a Window, for one thread, but along one axis each register has its own row index. Plan has: `along`,
// that axis; of(r), the register of `rows` for register r. Vectors run along another axis.
template <class L, class Plan, class T, int n, class S, class I, class LR>
struct RowWindow {
  T* data;  // of the thread's first element, in row 0
  Reach reaches[n];
  const Array<T, n, S>& array;
  const Tile<I, LR>& rows;

  TILE RowWindow(const Array<T, n, S>& from, typename Array<T, n, S>::Start start, const Tile<I, LR>& rows)
      : data(from.data), array(from), rows(rows) {
    TILE_UNROLL
    for (int axis = 0; axis < n; ++axis) {
      if (axis == Plan::along) continue;
      const i32 part = L::thread(axis);
      data = from.moved(data, start[axis] + part, axis);
      reaches[axis] = reach(start[axis], part, from.first[axis], from.size[axis]);
    }
  }
  TILE i64 row(int r) const { return (i64)rows.x[Plan::of(r)]; }
  template <int flags>
  TILE bool inside(int r) const {
    bool all = row(r) >= array.first[Plan::along] && row(r) < array.size[Plan::along];
    TILE_UNROLL
    for (int axis = 0; axis < n; ++axis) {
      if (L::padded) all = all && L::thread(axis) + L::element(axis, r) < L::extent(axis);
      if (axis != Plan::along) all = all && reaches[axis].inside(L::element(axis, r));
    }
    return all;
  }
  template <int vector, int flags>
  TILE bool holds(int r) const {
    bool all = inside<flags>(r);
    if (vector > 1 && !(flags & whole_vectors)) all = all && inside<flags>(r + vector - 1);
    return all;
  }
  TILE T* address(int r) const {
    T* at = array.moved(data, (typename CountOf<S>::Extent)row(r), Plan::along);
    TILE_UNROLL
    for (int axis = 0; axis < n; ++axis)
      if (axis != Plan::along) at = array.moved(at, L::element(axis, r), axis);
    return at;
  }
};

template <class L, int vector, int flags, class Plan, class T, int n, class S, class I, class LR>
TILE Tile<T, L> gather_rows(const Array<T, n, S>& array, typename Array<T, n, S>::Start start, T pad,
                            int line, const Tile<I, LR>& rows) {
  return load_from<L, vector, flags>(RowWindow<L, Plan, T, n, S, I, LR>(array, start, rows), pad, line);
}
template <int vector, int flags, class Plan, class T, class L, int n, class S, class I, class LR>
TILE void scatter_rows(const Array<T, n, S>& array, typename Array<T, n, S>::Start start,
                       const Tile<T, L>& from, int line, const Tile<I, LR>& rows) {
  store_to<vector, flags>(RowWindow<L, Plan, T, n, S, I, LR>(array, start, rows), from, line);
}

// Accesses elements at offsets from the array's first.
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
