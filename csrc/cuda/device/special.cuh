// What the rows of prims/elementwise/special.def mean for one lane.
#pragma once
#include "cuda/device/float_modes.cuh"
#include "cuda/device/math.cuh"

namespace tile {
namespace math {

// -0 and NaN stay.
template <class X>
TILE X sign(X x) {
  return x > X(0) ? X(1) : x < X(0) ? X(-1) : x;
}
TILE f64 min_nan(f64 x, f64 y) { return x != x ? x : y != y ? y : min(x, y); }
TILE f64 max_nan(f64 x, f64 y) { return x != x ? x : y != y ? y : max(x, y); }

}  // namespace math
}  // namespace tile
