// Elementwise rows: ROW1(name, expression over x) makes a function of scalars and of tiles.
#pragma once
#include "cuda/device/math.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// The result type of a row: bool for comparisons, else the operand's type.
template <class T, class R>
struct Rounded {
  using type = T;
  TILE static T of(R x) { return LaneOf<T>::out(x); }
};
template <class T>
struct Rounded<T, bool> {
  using type = bool;
  TILE static bool of(bool x) { return x; }
};
template <class Row, class T, class... A>
TILE auto lane_of(T x, A... others) {
  auto value = Row::at(LaneOf<T>::in(x), LaneOf<A>::in(others)...);
  return Rounded<T, decltype(value)>::of(value);
}
template <class Row, class T, class L, class... A>
TILE auto lanes_of(const Tile<T, L>& x, const Tile<A, L>&... others) {
  Tile<decltype(lane_of<Row>(x.x[0], others.x[0]...)), L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = lane_of<Row>(x.x[r], others.x[r]...);
  return to;
}

#define TILE_ROW(NAME, PARAMETERS, SCALARS, TILES, NAMES, EXPRESSION) \
  namespace math {                                                    \
  struct NAME##_row {                                                 \
    template <class X>                                                \
    TILE static auto at PARAMETERS {                                  \
      return EXPRESSION;                                              \
    }                                                                 \
  };                                                                  \
  }                                                                   \
  template <class T>                                                  \
  TILE auto NAME SCALARS {                                            \
    return lane_of<math::NAME##_row> NAMES;                           \
  }                                                                   \
  template <class T, class L>                                         \
  TILE auto NAME TILES {                                              \
    return lanes_of<math::NAME##_row> NAMES;                          \
  }
#define TILE_TILE const Tile<T, L>&
#define ROW1(NAME, EXPRESSION) TILE_ROW(NAME, (X x), (T x), (TILE_TILE x), (x), EXPRESSION)
#define ROW2(NAME, EXPRESSION) \
  TILE_ROW(NAME, (X x, X y), (T x, T y), (TILE_TILE x, TILE_TILE y), (x, y), EXPRESSION)
#define ROW3(NAME, EXPRESSION)                                                                         \
  TILE_ROW(NAME, (X x, X y, X z), (T x, T y, T z), (TILE_TILE x, TILE_TILE y, TILE_TILE z), (x, y, z), \
           EXPRESSION)

}  // namespace tile
