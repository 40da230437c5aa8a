// Loads and stores of tiles, gathers and scatters of elements.
#pragma once
#include "cuda/device/tile.cuh"

namespace tile {

enum Access {
  plain = 0,
  constant_array = 1,  // not written while the kernel runs
  in_bounds = 2,  // proven to be inside
  whole_vectors = 4,  // an edge does not split a vector
};

template <int bytes, class T>
union Packed {
  Words<bytes> words;
  T elements[bytes / sizeof(T)];
  TILE Packed() {}
};

// This thread's first coordinate on an axis of a tile, relative to the first existing element, and the number
// of existing elements.
struct Reach {
  i32 at;
  u32 count;
  TILE bool inside(int further) const { return (u32)(at + further) < count; }
};
TILE Reach reach(i32 start, int part, i32 first, i32 size) {
  return {start - first + part, (u32)(size - first)};
}
// Indices beyond 32 bits are outside.
TILE Reach reach(i64 start, int part, i32 first, i32 size) {
  const i64 at = start - first, count = size - first;
  return {(i32)at + part, (u64)(at + (1ll << 30)) <= (u64)(count + (1ll << 30)) ? (u32)count : 0};
}
// For an array with 64-bit extents: relative to the tile's own start if that is inside the array.
TILE Reach reach(i64 start, int part, i64 first, i64 size) {
  const i64 at = start - first, before = at < 0 ? at : 0, left = size - start + before, most = 0x7fffffff;
  return {(i32)(before > -(1ll << 30) ? before : -(1ll << 30)) + part, (u32)(left < 0      ? 0
                                                                             : left < most ? left
                                                                                           : most)};
}

// The start of a tile in an array, for one thread.
template <class L, class T, int n, class S>
struct Window {
  T* data;  // of the thread's first element
  Reach reaches[n ? n : 1];
  const Array<T, n, S>& array;

  TILE Window(const Array<T, n, S>& from, typename Array<T, n, S>::Start start)
      : data(from.data), array(from) {
    TILE_UNROLL
    for (int axis = 0; axis < n; ++axis) {
      const i32 part = L::thread(axis);
      data = from.moved(data, start[axis] + part, axis);
      reaches[axis] = reach(start[axis], part, from.first[axis], from.size[axis]);
    }
  }
  template <int flags>
  TILE bool inside(int r) const {
    bool all = true;
    TILE_UNROLL
    for (int axis = 0; axis < n; ++axis) {
      if (L::padded) all = all && L::thread(axis) + L::element(axis, r) < L::extent(axis);
      if (!(flags & in_bounds)) all = all && reaches[axis].inside(L::element(axis, r));
    }
    return all;
  }
  // The same for `vector` adjacent elements.
  template <int vector, int flags>
  TILE bool holds(int r) const {
    bool all = inside<flags>(r);
    if (vector > 1 && !(flags & whole_vectors)) all = all && inside<flags>(r + vector - 1);
    return all;
  }
  TILE T* address(int r) const {
    T* at = data;
    TILE_UNROLL
    for (int axis = 0; axis < n; ++axis) at = array.moved(at, L::element(axis, r), axis);
    return at;
  }
};

template <bool constant, class T>
TILE T load_element(const T* from, bool wanted, T otherwise, int line) {
  return bitcast<T>(
      load_global<sizeof(T), constant>(from, wanted, bitcast<Words<sizeof(T)>>(otherwise), line));
}
template <class T>
TILE void store_element(T* to, T from, bool wanted, int line) {
  store_global(to, bitcast<Words<sizeof(T)>>(from), wanted, line);
}

// Loads `vector` adjacent elements at once: registers r to r + vector - 1 are adjacent in memory. `access` is
// a Window or has its members.
template <class L, int vector, int flags, class T, class Access>
TILE Tile<T, L> load_from(const Access& access, T pad, int line) {
  Tile<T, L> to;
  constexpr bool constant = flags & constant_array;
  TILE_UNROLL
  for (int r = 0; r < L::registers; r += vector) {
    const bool all = access.template holds<vector, flags>(r);
    Packed<vector * sizeof(T), T> packed;
    TILE_UNROLL
    for (int i = 0; i < vector; ++i) packed.elements[i] = pad;
    packed.words = load_global<vector * sizeof(T), constant>(access.address(r), all, packed.words, line);
    // An edge splits this vector: load the elements inside one by one.
    if (vector > 1 && !(flags & whole_vectors) && !all) {
      TILE_UNROLL
      for (int i = 0; i < vector; ++i)
        packed.elements[i] =
            load_element<constant>(access.address(r + i), access.template inside<flags>(r + i), pad, line);
    }
    memcpy(&to.x[r], &packed.words, vector * sizeof(T));
  }
  return to;
}
template <int vector, int flags, class T, class L, class Access>
TILE void store_to(const Access& access, const Tile<T, L>& from, int line) {
  if (!stores<L>()) return;
  TILE_UNROLL
  for (int r = 0; r < L::registers; r += vector) {
    const bool all = access.template holds<vector, flags>(r);
    Packed<vector * sizeof(T), T> packed;
    TILE_UNROLL
    for (int i = 0; i < vector; ++i) packed.elements[i] = from.x[r + i];
    store_global(access.address(r), packed.words, all, line);
    if (vector > 1 && !(flags & whole_vectors) && !all) {
      TILE_UNROLL
      for (int i = 0; i < vector; ++i)
        store_element(access.address(r + i), from.x[r + i], access.template inside<flags>(r + i), line);
    }
  }
}

template <class L, int vector, int flags, class T, int n, class S>
TILE Tile<T, L> load(const Array<T, n, S>& array, typename Array<T, n, S>::Start start, T pad, int line) {
  return load_from<L, vector, flags>(Window<L, T, n, S>(array, start), pad, line);
}
template <int vector, int flags, class T, class L, int n, class S>
TILE void store(const Array<T, n, S>& array, typename Array<T, n, S>::Start start, const Tile<T, L>& from,
                int line) {
  store_to<vector, flags>(Window<L, T, n, S>(array, start), from, line);
}

// Loads from an array of rank 0.
template <int flags, class T, class S>
TILE T load_scalar(const Array<T, 0, S>& array, T pad, int line) {
  return load_element<(flags & constant_array) != 0>(array.data, array.size[0] != 0, pad, line);
}
template <class L, class T, class S>
TILE void store_scalar(const Array<T, 0, S>& array, T from, int line) {
  store_element(array.data, from, array.size[0] && stores<L>(), line);
}

// The element at an index per axis, and whether it exists. A null pointer cannot mark a missing element:
// ptxas 13.0 may test such a pointer's register pair before it is zeroed.
template <class T>
struct Element {
  T* at;
  bool there;
};
template <int axis, class T, int n, class S>
TILE Element<T> element(const Array<T, n, S>& array, Element<T> base) {
  return {base.at, base.there && (n || array.size[0])};
}
template <int axis, class T, int n, class S, class... I>
TILE Element<T> element(const Array<T, n, S>& array, Element<T> base, i64 index, I... others) {
  const bool inside = index >= array.first[axis] && index < array.size[axis];
  return element<axis + 1>(
      array,
      Element<T>{array.moved(base.at, (typename CountOf<S>::Extent)index, axis), base.there && inside},
      others...);
}

struct Always {
  TILE bool operator()(int) const { return true; }
};
template <class L>
struct Masked {
  Tile<bool, L> mask;
  TILE bool operator()(int r) const { return mask.x[r]; }
};

// The same for register r.
template <class L, class T, int n, class S, class Mask, class... I>
TILE Element<T> element_of(const Array<T, n, S>& array, int r, Mask mask, const Tile<I, L>&... index) {
  return element<0>(array, Element<T>{array.data, valid<L>(r) && mask(r)}, (i64)index.x[r]...);
}

template <int flags, class L, class T, int n, class S, class Mask, class... I>
TILE Tile<T, L> gather(const Array<T, n, S>& array, T pad, int line, Mask mask, const Tile<I, L>&... index) {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) {
    const Element<T> from = element_of<L>(array, r, mask, index...);
    to.x[r] = load_element<(flags & constant_array) != 0>(from.at, from.there, pad, line);
  }
  return to;
}
template <class L, class T, int n, class S, class Mask, class... I>
TILE void scatter(const Array<T, n, S>& array, const Tile<T, L>& from, int line, Mask mask,
                  const Tile<I, L>&... index) {
  if (!stores<L>()) return;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) {
    const Element<T> to = element_of<L>(array, r, mask, index...);
    store_element(to.at, from.x[r], to.there, line);
  }
}

// Elements at indices that are adjacent, and masked together, in groups of registers: an access as load_from
// takes it.
template <class L, class T, int n, class S, class Mask, class... I>
struct RunWindow {
  Element<T> elements[L::registers];

  TILE RunWindow(const Array<T, n, S>& array, Mask mask, const Tile<I, L>&... index) {
    TILE_UNROLL
    for (int r = 0; r < L::registers; ++r) elements[r] = element_of<L>(array, r, mask, index...);
  }
  template <int flags>
  TILE bool inside(int r) const {
    return elements[r].there;
  }
  template <int vector, int flags>
  TILE bool holds(int r) const {
    return elements[r].there && (flags & whole_vectors || elements[r + vector - 1].there);
  }
  TILE T* address(int r) const { return elements[r].at; }
};

template <int vector, int flags, class L, class T, int n, class S, class Mask, class... I>
TILE Tile<T, L> gather_runs(const Array<T, n, S>& array, T pad, int line, Mask mask,
                            const Tile<I, L>&... index) {
  return load_from<L, vector, flags>(RunWindow<L, T, n, S, Mask, I...>(array, mask, index...), pad, line);
}
template <int vector, int flags, class L, class T, int n, class S, class Mask, class... I>
TILE void scatter_runs(const Array<T, n, S>& array, const Tile<T, L>& from, int line, Mask mask,
                       const Tile<I, L>&... index) {
  store_to<vector, flags>(RunWindow<L, T, n, S, Mask, I...>(array, mask, index...), from, line);
}

}  // namespace tile
