// asin, acos, atan, atan2; each a template over a vector type. float <= 4 ulp, double lane by lane.
#pragma once
#include "cpu/vecmath/exp.h"

namespace tile::cpu::TILE_ISA {

// asin of |x| <= 1/2
template <class V>
TILE_INLINE V asin_small(V x) {
  const V square = x * x;
  return fma(polynomial(square, fitted::asin_tail) * square, x, x);
}

// Above 1/2: asin(x) = pi/2 - 2 asin(sqrt((1 - x)/2)).
template <FloatVector V>
TILE_INLINE V asin(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_asin(a); }, x);
  } else {
    const V magnitude = clear_sign(x);
    const auto large = magnitude > V(0.5f);
    const V inner = asin_small(select(large, sqrt((V(1.f) - magnitude) * V(0.5f)), magnitude));
    const V folded = fnma(inner, V(2.f), V(0x1.921fb6p+0f)) - V(0x1.777a5cp-25f);
    return flip_sign(select(large, folded, inner), x);
  }
}
template <FloatVector V>
TILE_INLINE V acos(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_acos(a); }, x);
  } else {
    const V magnitude = clear_sign(x);
    const auto large = magnitude > V(0.5f);
    const V inner = asin_small(select(large, sqrt((V(1.f) - magnitude) * V(0.5f)), x));
    const V twice = inner + inner;
    const V near_minus_one = V(0x1.921fb6p+1f) - (twice + V(0x1.777a5cp-24f));
    const V middle = V(0x1.921fb6p+0f) - (inner + V(0x1.777a5cp-25f));
    return select(large, select(x < V(0.f), near_minus_one, twice), middle);
  }
}

// atan(small / large) for 0 <= small <= large, combined with `turns` quarter turns: turns pi/2 + atan, or
// turns pi/2 - atan if the sign of `mirror` is set.
template <class V>
TILE_INLINE V atan_ratio(V small, V large, V turns, V mirror) {
  const auto steep = small > V(0.414213562f) * large;  // beyond tan(pi/8), relative to pi/4
  const V t = select(steep, small - large, small) / select(steep, small + large, large);
  const V square = t * t;
  const V r = fma(polynomial(square, fitted::atan_tail) * square, t, t);
  const V eighths = turns + turns + flip_sign(select(steep, V(1.f), V(0.f)), mirror);  // in units of pi/4
  const V low = fma(eighths, V(-0x1.777a5cp-26f), flip_sign(r, mirror));
  return fma(eighths, V(0x1.921fb6p-1f), low);
}

template <FloatVector V>
TILE_INLINE V atan(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_atan(a); }, x);
  } else {
    const V magnitude = clear_sign(x), one(1.f), zero(0.f);
    const auto inverted = magnitude > one;
    // Beyond 2^60 the ratio is effectively 0; infinity would produce NaN.
    const V capped = select(magnitude > V(0x1p60f), V(0x1p60f), magnitude);
    const V angle = atan_ratio(select(inverted, one, capped), select(inverted, capped, one),
                               select(inverted, one, zero), select(inverted, V(-0.f), zero));
    return flip_sign(angle, x);
  }
}

template <FloatVector V>
TILE_INLINE V atan2(V y, V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a, double b) { return __builtin_atan2(a, b); }, y, x);
  } else {
    const V infinity(__builtin_inff()), zero(0.f), one(1.f);
    const V ax = clear_sign(x), ay = clear_sign(y);
    const auto inverted = ay > ax;
    V small = min(ax, ay), large = max(ax, ay);
    // Keep small + large finite and the ratio of two infinities (1) or two zeros (0) defined.
    const auto infinite = large == infinity;
    small = select(infinite, select(small == infinity, one, zero), small);
    large = select(infinite | (large == zero), one, large);
    const V scale = select(large > V(0x1p100f), V(0x1p-24f), one);
    small = small * scale;
    large = large * scale;
    // Angle from the positive x axis: a, pi/2 - a (inverted), pi/2 + a (inverted, x negative), pi - a (x
    // negative).
    const V turns = select(inverted, one, select(sign_set(x), V(2.f), zero));
    const V mirror = select(inverted, -one, one);
    V angle = atan_ratio(small, large, turns, flip_sign(mirror, x));
    angle = select(is_nan(x) | is_nan(y), x + y, angle);
    return flip_sign(angle, y);
  }
}

}  // namespace tile::cpu::TILE_ISA
