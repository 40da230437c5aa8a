// Rows over float32 whose results end as 16 bits: coarse<math::exp_row>(x) takes the chip's fast functions.
#pragma once
#include "cuda/device/map.cuh"

namespace tile {
namespace math {

struct Coarse {
  f32 value;
  TILE Coarse(f32 x) : value(x) {}
  TILE operator f32() const { return value; }
  friend TILE Coarse operator+(Coarse x, Coarse y) { return x.value + y.value; }
  friend TILE Coarse operator*(Coarse x, Coarse y) { return x.value * y.value; }
  friend TILE Coarse operator/(Coarse x, Coarse y) { return divide_coarse(x.value, y.value); }
  friend TILE Coarse operator-(Coarse x) { return -x.value; }
};
TILE Coarse exp2(Coarse x) { return exp2_coarse(x.value); }
TILE Coarse exp(Coarse x) { return exp2_coarse(x.value * 1.44269504088896341f); }
TILE Coarse sqrt(Coarse x) { return sqrt_coarse(x.value); }
// A denominator of 2^126 and more makes it 0, as good as.
TILE Coarse sigmoid(Coarse x) { return reciprocal_coarse((Coarse(1) + exp(-x)).value); }
TILE Coarse silu(Coarse x) { return x * sigmoid(x); }

}  // namespace math

template <class T>
struct CoarseLane {
  TILE static math::Coarse in(T x) { return LaneOf<T>::in(x); }
  TILE static T out(math::Coarse x) { return LaneOf<T>::out(x.value); }
};
template <class Row, class T, class... A>
TILE T coarse_element(T x, A... others) {
  return CoarseLane<T>::out(Row::at(CoarseLane<T>::in(x), CoarseLane<T>::in(others)...));
}
template <class Row, class T, class L, class... A>
TILE Tile<T, L> coarse(const Tile<T, L>& x, const Tile<A, L>&... others) {
  using Lane = CoarseLane<T>;
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r)
    to.x[r] = Lane::out(Row::at(Lane::in(x.x[r]), Lane::in(others.x[r])...));
  return to;
}

}  // namespace tile
