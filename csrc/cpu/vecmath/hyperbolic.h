// tanh, sinh, cosh; each a template over a vector type. float <= 4 ulp, double lane by lane.
#pragma once
#include "cpu/vecmath/exp.h"

namespace tile::cpu::TILE_ISA {

// libm's tanh has an error of up to 2.02 ulp. This computes t / (t + 2) with t = expm1(2|x|) and corrects the
// rounding error of the sum.
TILE_INLINE double tanh_lane(double x) {
  const double magnitude = __builtin_fabs(x);
  if (magnitude > 22) return __builtin_copysign(1., x);
  const double t = __builtin_expm1(2 * magnitude), sum = t + 2;
  const double lost = t < 2 ? t - (sum - 2) : 2 - (sum - t), ratio = t / sum;
  return __builtin_copysign(ratio - ratio * (lost / sum), x);
}

// 1.3 ulp: an odd polynomial below 0.625, and 1 - 2/(exp(2|x|) + 1) above.
template <FloatVector V>
TILE_INLINE V tanh(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return tanh_lane(a); }, x);
  } else {
    const V magnitude = clear_sign(x), square = x * x;
    const V small = fma(polynomial(square, fitted::tanh_tail) * square, magnitude, magnitude);
    const V large = V(1.f) - V(2.f) / (exp_normal(min(V(20.f), magnitude + magnitude)) + V(1.f));
    return with_sign(select(magnitude < V(0.625f), small, large), x);
  }
}
// 6 ulp but three times as fast: one rational function, for results that are rounded to 16 bits.
template <FloatVector V>
TILE_INLINE V tanh_fast(V x) {
  if constexpr (in_double<V>) {
    return tanh(x);
  } else {
    const V c = min(V(9.02f), max(V(-9.02f), x)), square = c * c;
    const V ratio = c * polynomial(square, fitted::tanh_fast_p) / polynomial(square, fitted::tanh_fast_q);
    const V held = min(V(1.f), max(V(-1.f), ratio));
#ifdef __FMA__
    return held;  // exactly 1 at the clamp
#else
    // x + x makes a NaN quiet, as the arithmetic above does.
    return select(clear_sign(x) < V(9.02f), held, select(x == x, flip_sign(V(1.f), x), x + x));
#endif
  }
}

template <FloatVector V>
TILE_INLINE V sinh(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_sinh(a); }, x);
  } else {
    const V magnitude = clear_sign(x), square = x * x;
    const V small = fma(polynomial(square, fitted::sinh_tail) * square, x, x);
    const V half_exp = exp_shifted<-1>(magnitude);
    return select(magnitude < V(1.f), small, flip_sign(half_exp - V(0.25f) / half_exp, x));
  }
}

template <FloatVector V>
TILE_INLINE V cosh(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_cosh(a); }, x);
  } else {
    const V half_exp = exp_shifted<-1>(clear_sign(x));
    return half_exp + V(0.25f) / half_exp;
  }
}

}  // namespace tile::cpu::TILE_ISA
