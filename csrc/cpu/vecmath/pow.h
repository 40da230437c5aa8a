// pow, a template over a vector type. float is computed in double and rounded once; double lane by lane.
#pragma once
#include "cpu/vecmath/convert.h"
#include "cpu/vecmath/exp.h"
#include "cpu/vecmath/integer.h"

namespace tile::cpu::TILE_ISA {

// log2 of a double >= 0 that was converted from float (never subnormal): absolute error below 2^-48.
template <class W>
TILE_INLINE W wide_log2(W x) {
  using B = typename W::Bits;
  const B root(0x3fe6a09e667f3bcd), one(0x3ff0000000000000);       // sqrt 1/2 and 1
  const B e = shift_right_zeros(bit_cast<B>(x) - root + one, 52);  // exponent + 1023
  const W m = bit_cast<W>(bit_cast<B>(x) - (e << 52) + one);
  const W s = (m - W(1.)) / (m + W(1.));
  const W whole = bit_cast<W>(e | bit_cast<B>(W(0x1p52))) - W(0x1p52 + 1023);
  const W value = fma(s, polynomial(s * s, fitted::log2_double), whole);
  const W infinity(__builtin_inf());
  return select(x < infinity, select(x == W(0.), -infinity, value), x);
}
// 2^x for |x| <= 1000, or NaN: relative error below 2^-39.
template <class W>
TILE_INLINE W wide_exp2(W x) {
  const W magic(0x1.8p52 + 1023), t = x + magic, f = x - (t - magic);
  return polynomial(f, fitted::exp2_double) * bit_cast<W>(bit_cast<typename W::Bits>(t) << 52);
}
template <class W>
TILE_INLINE W wide_pow(W x, W y) {
  return wide_exp2(min(W(200.), max(W(-200.), y * wide_log2(x))));
}

template <FloatVector V>
TILE_INLINE V pow(V x, V y) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a, double b) { return __builtin_pow(a, b); }, x, y);
  } else {
    const V magnitude = clear_sign(x), zero(0.f), one(1.f);
    const auto wide_x = widen(magnitude);
    const auto wide_y = widen(y);
    using W = Pair<std::decay_t<decltype(wide_x.low)>>;
    V value = narrow(W{wide_pow(wide_x.low, wide_y.low), wide_pow(wide_x.high, wide_y.high)});
    const V half = y * V(0.5f);
    const auto whole = trunc(y) == y;
    const auto odd = whole & (trunc(half) != half);
    value = select(odd, flip_sign(value, x), value);
    // A negative finite base has real powers only for integral exponents.
    const auto negative = (x < zero) & (magnitude < V(__builtin_inff()));
    value = select(negative & ~whole & (y == y), V(__builtin_nanf("")), value);
    const auto unit = (magnitude == one) & (clear_sign(y) == V(__builtin_inff()));
    return select((y == zero) | (x == one) | unit, one, value);
  }
}

}  // namespace tile::cpu::TILE_ISA
