// Tiles in registers and arrays in memory. A layout L is a struct of the generated source with these members:
//   rank, registers
//   extent(axis)      the tile's extent
//   padded            true if some register or thread holds no element
//   thread(axis)      this thread's part of the coordinate
//   element(axis, r)  register r's part of the coordinate
//   replicas          bits of the thread number in which threads hold the same elements
//   block_replicas    bits of the block number in the cluster in which blocks hold the same elements
#pragma once
#include "cuda/device/types.cuh"

namespace tile {

template <class T, class L>
struct Tile {
  T x[L::registers];
};

// Two adjacent 16-bit elements occupy one register: moved as a pair they stay in one.
template <class T, class L>
TILE u32 pair_at(const Tile<T, L>& tile, int r) {
  u32 pair;
  memcpy(&pair, &tile.x[r], 4);
  return pair;
}
template <class T, class L>
TILE void set_pair(Tile<T, L>& tile, int r, u32 pair) {
  memcpy(&tile.x[r], &pair, 4);
}

// S is the type of strides and tile starts. It is i32 if the array is known to be small, so that an address
// needs one multiplication per axis. `wide` means that these are i64, and extents as well, because some
// extent does not fit i32.
struct wide {};
template <class S>
struct CountOf {
  using Stride = S;
  using Extent = i32;
};
template <>
struct CountOf<wide> {
  using Stride = i64;
  using Extent = i64;
};
template <class T, int n, class S>
struct Array {
  using Stride = typename CountOf<S>::Stride;
  using Extent = typename CountOf<S>::Extent;
  using Start = const Stride (&)[n ? n : 1];
  T* data;
  Stride stride[n ? n : 1];  // in bytes
  Extent size[n ? n : 1];  // for rank 0: 1 if the element exists, else 0
  Extent first[n ? n : 1];  // elements before it do not exist, as after a slice from a negative start
  template <class I>
  TILE T* moved(T* from, I index, int axis) const {
    return (T*)((char*)from + (i64)index * (i64)stride[axis]);
  }
};
// An array as a launch passes it.
template <class T, int n, class Extent = i32>
struct ArrayParameter {
  T* data;
  i64 stride[n ? n : 1];
  Extent size[n ? n : 1];
};
// `unit` is the axis whose stride is known to be 1, or -1.
template <int unit, class S, class T, int n, class Extent>
TILE Array<T, n, S> array_of(const ArrayParameter<T, n, Extent>& from) {
  using Stride = typename CountOf<S>::Stride;
  Array<T, n, S> to;
  to.data = from.data;
  to.size[0] = 1;
  to.first[0] = 0;
  TILE_UNROLL
  for (int i = 0; i < n; ++i) {
    to.stride[i] = (i == unit ? (Stride)1 : (Stride)from.stride[i]) * (Stride)sizeof(T);
    to.size[i] = from.size[i];
    to.first[i] = 0;
  }
  return to;
}
template <class T, int n, class S>
TILE typename CountOf<S>::Extent dim(const Array<T, n, S>& array, int axis) {
  return array.size[axis] - array.first[axis];
}
template <class T, int n, class S>
TILE typename CountOf<S>::Stride stride(const Array<T, n, S>& array, int axis) {
  return array.stride[axis] / (typename CountOf<S>::Stride)sizeof(T);
}
// The start of a tile in a small array, where tiles are `step` elements apart. Starts beyond the array stay
// outside after clamping.
template <int step, class I>
TILE i32 clamped_start(I index) {
  constexpr I most = (1 << 30) / step;
  return (i32)(index < -most ? -most : index > most ? most : index) * step;
}
template <int step>
TILE i32 tile_start(i32 index) {
  return clamped_start<step>(index);
}
template <int step>
TILE i32 tile_start(i64 index) {
  return clamped_start<step>(index);
}
template <int step>
TILE i32 tile_start(u32 index) {
  return clamped_start<step>((i64)index);
}
template <int step>
TILE i32 tile_start(u64 index) {
  return clamped_start<step>((i64)index);
}

// Returns true if register r of this thread holds an element.
template <class L>
TILE bool valid(int r) {
  if constexpr (L::padded) {
    bool inside = true;
    TILE_UNROLL
    for (int axis = 0; axis < L::rank; ++axis)
      inside = inside && L::thread(axis) + L::element(axis, r) < L::extent(axis);
    return inside;
  }
  return true;
}
// Returns true if this thread writes for all threads that hold the same elements.
template <class L>
TILE bool owner() {
  return L::replicas == 0 || (thread() & L::replicas) == 0;
}

// The same for global memory: only one block of a cluster writes, too.
template <class L>
TILE bool stores() {
  if constexpr (L::block_replicas != 0)
    return owner<L>() && (block_of_cluster() & L::block_replicas) == 0;
  else
    return owner<L>();
}

template <class L, class T>
TILE Tile<T, L> full(T value) {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = value;
  return to;
}
template <class T, class L>
TILE Tile<T, L> arange() {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) {
    const i32 at = L::thread(0) + L::element(0, r);
    if constexpr (Same<typename LaneOf<T>::type, f32>::value)
      to.x[r] = LaneOf<T>::out((f32)at);
    else
      to.x[r] = (T)at;
  }
  return to;
}

// Returns register map(r).
template <class T, class L, class Map>
TILE T picked(const Tile<T, L>& tile, int r, Map map) {
  return tile.x[map(r)];
}

template <class T>
TILE T where(bool condition, T x, T y) {
  return condition ? x : y;
}
template <class T, class L>
TILE Tile<T, L> where(const Tile<bool, L>& condition, const Tile<T, L>& x, const Tile<T, L>& y) {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = condition.x[r] ? x.x[r] : y.x[r];
  return to;
}

// Returns the array with its leading axes fixed; an index outside makes the result empty.
template <int axis, class T, int n, class S>
TILE void fix(const Array<T, n, S>&, bool&, T*&) {}
template <int axis, class T, int n, class S, class... I>
TILE void fix(const Array<T, n, S>& from, bool& inside, T*& data, i64 index, I... others) {
  inside = inside && index >= from.first[axis] && index < from.size[axis];
  data = from.moved(data, (typename CountOf<S>::Extent)index, axis);
  fix<axis + 1>(from, inside, data, others...);
}
template <class T, int n, class S, class... I>
TILE auto index(const Array<T, n, S>& from, I... indices) {
  constexpr int fixed = sizeof...(I), left = n - fixed;
  bool inside = true;
  Array<T, left, S> to;
  to.data = from.data;
  fix<0>(from, inside, to.data, (i64)indices...);
  to.size[0] = 1;
  to.first[0] = 0;
  TILE_UNROLL
  for (int i = 0; i < left; ++i) {
    to.stride[i] = from.stride[i + fixed];
    to.size[i] = from.size[i + fixed];
    to.first[i] = from.first[i + fixed];
  }
  // One empty axis makes the array empty.
  if (!inside) to.size[0] = to.first[0] = 0;
  return to;
}
// Returns the count as an extent, limited to the largest i32 if extents are i32.
template <class Extent>
TILE Extent extent_of(i64 count) {
  if (sizeof(Extent) == 8) return (Extent)count;
  return (Extent)(count < 0x7fffffff ? count : 0x7fffffff);
}
// Keeps start <= index < stop of one axis. The result may have large indices even if the array is small.
template <int axis, class To = i64, class T, int n, class S>
TILE Array<T, n, To> slice(const Array<T, n, S>& array, i64 start, i64 stop) {
  using Extent = typename CountOf<To>::Extent;
  const i64 end = stop < array.size[axis] ? stop : array.size[axis], first = array.first[axis] - start;
  Array<T, n, To> to;
  to.data = array.moved(array.data, start, axis);
  TILE_UNROLL
  for (int i = 0; i < n; ++i) {
    to.stride[i] = array.stride[i];
    to.size[i] = array.size[i];
    to.first[i] = array.first[i];
  }
  to.first[axis] = first > 0 ? extent_of<Extent>(first) : 0;
  to.size[axis] = end - start > to.first[axis] ? extent_of<Extent>(end - start) : to.first[axis];
  return to;
}
template <int... axes, class T, int n, class S>
TILE Array<T, n, S> permute_array(const Array<T, n, S>& from) {
  constexpr int order[] = {axes..., 0};
  Array<T, n, S> to = from;
  TILE_UNROLL
  for (int i = 0; i < n; ++i) {
    to.stride[i] = from.stride[order[i]];
    to.size[i] = from.size[order[i]];
    to.first[i] = from.first[order[i]];
  }
  return to;
}

}  // namespace tile
