// log, log2, log1p; each a template over a vector type. float <= 4 ulp, double lane by lane.
#pragma once
#include "cpu/vecmath/convert.h"
#include "cpu/vecmath/exp.h"

namespace tile::cpu::TILE_ISA {

// x = 2^e (1 + f) with 1 + f in [sqrt 1/2, sqrt 2), for finite x > 0.
template <class V>
struct Fraction {
  V e, f;
};
template <class V>
TILE_INLINE Fraction<V> split_fraction(V x) {
  using B = typename V::Bits;
  const auto denormal = x < V(0x1p-126f);
  const B bits = bit_cast<B>(select(denormal, x * V(0x1p23f), x)) - B(0x3f3504f3);  // sqrt 1/2
  const B e = bits >> 23;
  const V f = bit_cast<V>(bits - (e << 23) + B(0x3f3504f3)) - V(1.f);
  return {to_float(e) - select(denormal, V(23.f), V(0.f)), f};
}
// log(1 + f) - f
template <class V>
TILE_INLINE V log_remainder(V f) {
  const V square = f * f;
  return fma(polynomial(f, fitted::log_tail) * f, square, square * V(-0.5f));
}
// Returns `value` for positive finite x, and C99's results for other x.
template <class V>
TILE_INLINE V log_edges(V x, V value) {
  const V infinity(__builtin_inff());
  value = select(x < infinity, value, x);  // infinity and NaN
  value = select(x == V(0.f), V(-__builtin_inff()), value);
  return select(x < V(0.f), V(__builtin_nanf("")), value);
}

template <FloatVector V>
TILE_INLINE V log(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_log(a); }, x);
  } else {
    const auto [e, f] = split_fraction(x);
    const V low = fma(e, V(-2.12194440e-4f), log_remainder(f));
    return log_edges(x, fma(e, V(0.693359375f), low + f));  // 0.693359375 e is exact
  }
}

template <FloatVector V>
TILE_INLINE V log2(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_log2(a); }, x);
  } else {
    const auto [e, f] = split_fraction(x);
    const V rest = log_remainder(f);
    // log2(e) = 1 + 0.4427: only the small part's product is rounded.
    V value = fma(rest, V(0.442695041f), f * V(0.442695041f)) + rest;
    return log_edges(x, (value + f) + e);
  }
}

template <FloatVector V>
TILE_INLINE V log1p(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_log1p(a); }, x);
  } else {
    // log(u) with u = 1 + x rounded, plus a correction for the rounding.
    const V u = V(1.f) + x;
    const V lost = select(x > V(1.f), V(1.f) - (u - x), x - (u - V(1.f)));
    const auto [e, f] = split_fraction(u);
    const V low = fma(e, V(-2.12194440e-4f), log_remainder(f) + lost / u);
    const V value = log_edges(u, fma(e, V(0.693359375f), low + f));
    return select(clear_sign(x) < V(0x1p-25f), x, value);
  }
}

}  // namespace tile::cpu::TILE_ISA
