// The functions of prims/elementwise/special.def for one lane.
#pragma once
#include "cuda/device/float_modes.cuh"
#include "cuda/device/math.cuh"

namespace tile {
namespace math {

template <class T>
TILE Int<T> sign(Int<T> x) {
  return x.value > T(0) ? T(1) : x.value < T(0) ? T(-1) : T(0);
}
// -0 and NaN are kept.
TILE f32 sign(f32 x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }
TILE f64 sign(f64 x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
TILE f64 min_nan(f64 x, f64 y) { return x != x ? x : y != y ? y : min(x, y); }
TILE f64 max_nan(f64 x, f64 y) { return x != x ? x : y != y ? y : max(x, y); }

}  // namespace math
}  // namespace tile
