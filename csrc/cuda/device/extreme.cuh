// The index of an extreme, as a reduction of pairs. The first of equal values wins. NaN is skipped; if all
// values are NaN the index is 0.
#pragma once
#include "cuda/device/reduce.cuh"

namespace tile {

template <class V>
struct alignas(sizeof(V) == 8 ? 16 : 8) Indexed {
  V value;
  i32 index;
};
// Narrow integers are widened to i32.
template <class V, bool narrow = (sizeof(V) < 4)>
struct IndexedOf {
  using type = Indexed<V>;
};
template <class V>
struct IndexedOf<V, true> {
  using type = Indexed<i32>;
};
constexpr i32 no_index = 0x7fffffff;  // larger than any index, so that any element wins

template <class V>
struct KeptAs<Indexed<V>> {
  template <class Plan, class From, class T>
  TILE static Indexed<V> of(T x, int r) {
    return {convert<V>(x), From::thread(Plan::axis) + From::element(Plan::axis, r)};
  }
  template <class T>
  TILE static T result(Indexed<V> x) {
    return x.index == no_index ? 0 : x.index;
  }
};

// The initial value has no index, and no element is worse.
#define TILE_EXTREME(NAME, INTEGER, FLOAT, BEYOND)                                            \
  struct NAME {                                                                               \
    template <class T>                                                                        \
    using Kept = typename IndexedOf<typename SumOf<T>::type>::type;                            \
    template <class T>                                                                        \
    using Result = i32;                                                                       \
    template <class A>                                                                        \
    TILE static A start() {                                                                   \
      using V = decltype(A::value);                                                           \
      if constexpr (IsInteger<V>::value)                                                      \
        return {Limits<V>::INTEGER, no_index};                                                \
      else                                                                                    \
        return {(V)float_from_bits(FLOAT), no_index};                                         \
    }                                                                                         \
    template <class A>                                                                        \
    TILE static A combine(A x, A y) {                                                         \
      const bool second = y.value BEYOND x.value || (y.value == x.value && y.index < x.index); \
      return {second ? y.value : x.value, second ? y.index : x.index};                        \
    }                                                                                         \
  };
TILE_EXTREME(ArgMax, low, 0xff800000u, >)
TILE_EXTREME(ArgMin, high, 0x7f800000u, <)
#undef TILE_EXTREME

}  // namespace tile
