// exp, sigmoid, silu and tanh of float for results that are rounded to 16 bits: relative error at most 2^-16.
#pragma once
#include "cpu/vecmath/hyperbolic.h"
#include "cpu/vecmath/pairs.h"

namespace tile::cpu::TILE_ISA::approximate {

// Like the tail in exp.h, but with ln 2 in one product and two terms less: e^r = 1 + r + r² tail.
template <class V>
TILE_INLINE V short_tail(V square, V r, float sign) {
  const auto& c = fitted::exp_tail_approximate;
  static_assert(sizeof(c) / sizeof(c[0]) == 3);
  return fma(V(c[2]), square, fma(V(sign * c[1]), r, V(c[0])));
}
template <class V>
TILE_INLINE V power_of_two(V t) {
  return bit_cast<V>(bit_cast<typename V::Bits>(t) << 23);
}
template <class V>
TILE_INLINE V short_exp(V x) {
  const V magic(0x1.8p23f + 127), t = fma(x, V(1.44269504f), magic), r = fnma(t - magic, V(0.693147181f), x);
  const V square = r * r, power = power_of_two(t);
  return fma(fma(short_tail(square, r, 1), square, r), power, power);
}
// 2^shift (1 + exp(-x))
template <int shift, class V>
TILE_INLINE V one_and_short_exp(V x) {
  const V magic(0x1.8p23f + (127 + shift)), t = fnma(x, V(1.44269504f), magic);
  const V r = fnma(magic - t, V(0.693147181f), x), square = r * r, power = power_of_two(t);
  return fnma(fnma(short_tail(square, r, -1), square, r), power, power + V(shift == 0 ? 1.f : 0x1p-64f));
}

// Both functions with a table, for every x.
template <Wide V>
TILE_INLINE V short_exp_wide(V x) {
  const auto& c = fitted::exp_short_approximate;
  const V magic(sixteenths_magic), t = fma(x, V(1.44269504f), magic), n = t - magic;
  const V r = limited(fnma(n, V(0.693147181f), x), V(most_sixteenth));
  return scaled_power(t, n, fma(V(c[1]), r, V(c[0])) * r);
}
template <int shift, Wide V>
TILE_INLINE V one_and_short_exp_wide(V x) {
  const auto& c = fitted::exp_short_approximate;
  const V magic(sixteenths_magic), t = fnma(x, V(1.44269504f), magic), n = t - magic;
  const V minus_r = limited(fma(n, V(0.693147181f), x), V(most_sixteenth));
  const V decay = fma(V(-c[1]), minus_r, V(c[0])) * minus_r;
  const V power = power_of_sixteenths<shift>(bit_cast<typename V::Bits>(t));
  return scale(fnma(power, decay, power), n) + V(shift == 0 ? 1.f : 0x1p-64f);
}

// A vector of ordinary lanes takes the short way. A lane's bits do not depend on other lanes.
template <class V, class F, class G>
TILE_INLINE V short_where_normal(V x, F ordinary, G any) {
  return exp_is_normal(x) ? number(ordinary()) : select(exp_is_normal_of(x), ordinary(), any());
}
struct exp_row {
  template <class V>
  TILE_INLINE V operator()(V x) const {
    if constexpr (Wide<V>)
      if (is_wide(x)) return short_exp_wide(x);
    return short_where_normal(
        x, [&] { return short_exp(x); }, [&] { return TILE_ISA::exp(x); });
  }
};
struct sigmoid_row {
  template <class V>
  TILE_INLINE V operator()(V x) const {
    if constexpr (Wide<V>)
      if (is_wide(x)) return V(0x1p-64f) / one_and_short_exp_wide<-64>(x);
    return short_where_normal(
        x, [&] { return V(1.f) / one_and_short_exp<0>(x); }, [&] { return TILE_ISA::sigmoid(x); });
  }
};
struct silu_row {
  template <class V>
  TILE_INLINE V operator()(V x) const {
    const auto ordinary = [&] {
      if constexpr (Wide<V>)
        if (is_wide(x)) return x / one_and_short_exp_wide<0>(x);
      return x / one_and_short_exp<0>(x);
    };
    return short_where_normal(x, ordinary, [&] { return TILE_ISA::silu(x); });
  }
};
struct tanh_row {
  template <class V>
  TILE_INLINE V operator()(V x) const {
    return tanh_fast(x);
  }
};
struct OnePlusTanh {
  template <class V>
  TILE_INLINE V operator()(V x) const {
    const V y = x + x;
    if constexpr (Wide<V>)
      if (is_wide(x)) return V(0x1p-63f) / one_and_short_exp_wide<-64>(y);
    return V(0x1p-63f) / one_and_short_exp<-64>(min(V(30.f), max(V(-104.5f), y)));
  }
};

// Applies F(type, name, operands) to each function alone, of a difference and of a sum, with names as in
// pairs.h.
#define TILE_APPROXIMATE_FORMS(F, name)                                         \
  F(approximate::name##_row, #name ".approximate", 1)                           \
  F(pairs::OfDifference<approximate::name##_row>, #name ".approximate(sub)", 2) \
  F(pairs::OfSum<approximate::name##_row>, #name ".approximate(fma)", 3)
#define TILE_APPROXIMATE_ROWS(F)                               \
  F(approximate::OnePlusTanh, "one_plus(tanh).approximate", 1) \
  TILE_APPROXIMATE_FORMS(F, exp)                               \
  TILE_APPROXIMATE_FORMS(F, sigmoid)                           \
  TILE_APPROXIMATE_FORMS(F, tanh)                              \
  TILE_APPROXIMATE_FORMS(F, silu)

}  // namespace tile::cpu::TILE_ISA::approximate
