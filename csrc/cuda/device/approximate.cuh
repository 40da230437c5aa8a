// Rows over float32 whose results are rounded to 16 bits: approximate<math::exp_row>(x) uses the chip's fast
// functions.
#pragma once
#include "cuda/device/map.cuh"

namespace tile {
namespace math {

struct Approximate {
  f32 value;
  TILE Approximate(f32 x) : value(x) {}
  TILE operator f32() const { return value; }
  friend TILE Approximate operator+(Approximate x, Approximate y) { return x.value + y.value; }
  friend TILE Approximate operator*(Approximate x, Approximate y) { return x.value * y.value; }
  friend TILE Approximate operator/(Approximate x, Approximate y) {
    return divide_approximate(x.value, y.value);
  }
  friend TILE Approximate operator-(Approximate x) { return -x.value; }
};
TILE Approximate exp2(Approximate x) { return exp2_approximate(x.value); }
TILE Approximate exp(Approximate x) { return exp2_approximate(x.value * 1.44269504088896341f); }
TILE Approximate sqrt(Approximate x) { return sqrt_approximate(x.value); }
// A denominator of 2^126 or more yields 0, which is accurate enough.
TILE Approximate sigmoid(Approximate x) { return reciprocal_approximate((Approximate(1) + exp(-x)).value); }
TILE Approximate silu(Approximate x) { return x * sigmoid(x); }

}  // namespace math

template <class T>
struct ApproximateLane {
  TILE static math::Approximate in(T x) { return LaneOf<T>::in(x); }
  TILE static T out(math::Approximate x) { return LaneOf<T>::out(x.value); }
};
template <class Row, class T, class... A>
TILE T approximate_element(T x, A... others) {
  return ApproximateLane<T>::out(Row::at(ApproximateLane<T>::in(x), ApproximateLane<T>::in(others)...));
}
template <class Row, class T, class L, class... A>
TILE Tile<T, L> approximate(const Tile<T, L>& x, const Tile<A, L>&... others) {
  using Lane = ApproximateLane<T>;
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r)
    to.x[r] = Lane::out(Row::at(Lane::in(x.x[r]), Lane::in(others.x[r])...));
  return to;
}

}  // namespace tile
