// The exact remainder of floats whose quotient is rounded toward zero, as C's fmod.
#pragma once
#include "cpu/vecmath/simd.h"

namespace tile::cpu::TILE_ISA {

TILE_INLINE float remainder(float x, float y) { return __builtin_fmodf(x, y); }
TILE_INLINE double remainder(double x, double y) { return __builtin_fmod(x, y); }

template <class T>
struct RemainderStep {
  Vec<T> rest;
  Mask<T> exact;
};
// One division. Its quotient may have been rounded up to the next integer: then one divisor is added again.
// An fma makes the rest exact; without one, the operands must be floats, and the quotient be so small that
// its product with the divisor is exact.
template <class T>
TILE_INLINE RemainderStep<T> remainder_step(Vec<T> x, Vec<T> y) {
  using V = Vec<T>;
  constexpr T most = sizeof(T) == 4 ? T(0x1p22) : has_fma ? T(0x1p51) : T(0x1p28);
  const V quotient = x / y, size = clear_sign(y);
  const V rest = flip_sign(fnma(trunc(quotient), y, x), x);
  const V whole = clear_sign(select(rest < V(0), rest + size, rest));
  return {with_sign(whole, x),
          (clear_sign(quotient) < V(most)) & (size < V(static_cast<T>(__builtin_inf())))};
}
// The loops leave out rare values, large quotients, infinity and NaN, which are computed one by one.
template <class T>
[[gnu::noinline, gnu::cold]] Vec<T> remainder_by_lanes(Vec<T> x, Vec<T> y) {
  return map_lanes([](T a, T b) { return remainder(a, b); }, x, y);
}
TILE_INLINE Vec<float> remainder_as_doubles(Vec<float> x, Vec<float> y) {
  const auto a = widen(x), b = widen(y);
  const auto low = remainder_step(a.low, b.low), high = remainder_step(a.high, b.high);
  if (__builtin_expect(all(low.exact & high.exact), 1)) return narrow({low.rest, high.rest});
  return remainder_by_lanes(x, y);
}
[[gnu::noinline, gnu::cold]] inline Vec<float> far_remainder(Vec<float> x, Vec<float> y) {
  return remainder_as_doubles(x, y);
}

TILE_INLINE Vec<double> remainder(Vec<double> x, Vec<double> y) {
  if constexpr (has_fma) {
    const auto step = remainder_step(x, y);
    if (__builtin_expect(all(step.exact), 1)) return step.rest;
  }
  return remainder_by_lanes(x, y);
}
TILE_INLINE Vec<float> remainder(Vec<float> x, Vec<float> y) {
  if constexpr (!has_fma) return remainder_as_doubles(x, y);
  const auto step = remainder_step(x, y);
  if (__builtin_expect(all(step.exact), 1)) return step.rest;
  return far_remainder(x, y);
}

}  // namespace tile::cpu::TILE_ISA
