// sin, cos, tan; each a template over a vector type. float <= 4 ulp for every x, double lane by lane.
#pragma once
#include "cpu/vecmath/exp.h"

namespace tile::cpu::TILE_ISA {

// x = quadrant pi/2 + r, |r| <= pi/4, for |x| below reducible.
template <class V>
struct Angle {
  typename V::Bits quadrant;  // only the low two bits are significant
  V r;
};
static constexpr float reducible = has_fma ? 1e5f : 1.2e4f;

template <class V>
TILE_INLINE Angle<V> split_angle(V x) {
  const V magic(0x1.8p23f);
  const V t = fma(x, V(0.636619772f), magic), n = t - magic;
  V r = x;
  if constexpr (has_fma) {  // three words of pi/2; the first difference is exact
    r = fnma(n, V(0x1.921fb6p+0f), r);
    r = fnma(n, V(-0x1.777a5cp-25f), r);
    r = fnma(n, V(-0x1.ee59dap-50f), r);
  } else {  // words of at most 11 bits, so that the products are exact
    r = r - n * V(0x1.92p+0f);
    r = r - n * V(0x1.fb4p-12f);
    r = r - n * V(0x1.444p-24f);
    r = r - n * V(0x1.68cp-39f);
    r = r - n * V(0x1.1a6264p-54f);
  }
  return {bit_cast<typename V::Bits>(t), r};
}
template <class V>
TILE_INLINE V sin_reduced(V r) {
  const V square = r * r;
  return fma(polynomial(square, fitted::sin_tail) * square, r, r);
}
template <class V>
TILE_INLINE V cos_reduced(V r) {
  const V square = r * r;
  return fma(polynomial(square, fitted::cos_tail) * square, square, fma(square, V(-0.5f), V(1.f)));
}
template <class V>
TILE_INLINE typename V::MaskType beyond_reduction(V x) {
  return clear_sign(x) > V(reducible);
}
// sin of quadrant pi/2 + r
template <class V>
TILE_INLINE V sin_of(typename V::Bits quadrant, V r) {
  using B = typename V::Bits;
  const auto odd = (quadrant & B(1)) != B(0);
  const V value = select(mask_cast<float>(odd), cos_reduced(r), sin_reduced(r));
  return flip_sign(value, bit_cast<V>(quadrant << 30));
}

template <FloatVector V>
TILE_INLINE V sin(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_sin(a); }, x);
  } else {
    const auto [quadrant, r] = split_angle(x);
    const V value = select(x == V(0.f), x, sin_of(quadrant, r));
    return repair_lanes(
        value, beyond_reduction(x), [](float a) { return (float)__builtin_sin(a); }, x);
  }
}
template <FloatVector V>
TILE_INLINE V cos(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_cos(a); }, x);
  } else {
    const auto [quadrant, r] = split_angle(x);
    const V value = sin_of(quadrant + typename V::Bits(1), r);
    return repair_lanes(
        value, beyond_reduction(x), [](float a) { return (float)__builtin_cos(a); }, x);
  }
}
template <FloatVector V>
TILE_INLINE V tan(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_tan(a); }, x);
  } else {
    using B = typename V::Bits;
    const auto [quadrant, r] = split_angle(x);
    const V s = sin_reduced(r), c = cos_reduced(r);
    const auto odd = mask_cast<float>((quadrant & B(1)) != B(0));
    const V ratio = select(odd, -c, s) / select(odd, s, c);
    const V value = select(x == V(0.f), x, ratio);
    return repair_lanes(
        value, beyond_reduction(x), [](float a) { return (float)__builtin_tan(a); }, x);
  }
}

}  // namespace tile::cpu::TILE_ISA
