// exp, sigmoid, silu and tanh of float where the result is rounded to 16 bits: relative error at most 2^-16.
#pragma once
#include "cpu/isa/hyperbolic.h"
#include "cpu/isa/pairs.h"

namespace tile::cpu::TILE_ISA::coarse {

// As in exp.h, with ln 2 in one product and two terms less: e^r = 1 + r + r² tail.
template <class V>
TILE_INLINE V short_tail(V square, V r, float sign) {
  const auto& c = fitted::exp_tail_coarse;
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

// A vector of ordinary lanes goes the short way; a lane's bits do not depend on its neighbours.
#define TILE_COARSE(name, quick)                                                            \
  struct name##_row {                                                                       \
    template <class V>                                                                      \
    TILE_INLINE V operator()(V x) const {                                                   \
      const auto ordinary = [&] { return quick; };                                          \
      return exp_is_normal(x) ? number(ordinary())                                          \
                              : select(exp_is_normal_of(x), ordinary(), TILE_ISA::name(x)); \
    }                                                                                       \
  };
TILE_COARSE(exp, short_exp(x))
TILE_COARSE(sigmoid, V(1.f) / one_and_short_exp<0>(x))
TILE_COARSE(silu, x / one_and_short_exp<0>(x))
#undef TILE_COARSE
struct tanh_row {
  template <class V>
  TILE_INLINE V operator()(V x) const {
    return tanh_fast(x);
  }
};
struct OnePlusTanh {
  template <class V>
  TILE_INLINE V operator()(V x) const {
    return V(0x1p-63f) / one_and_short_exp<-64>(min(V(30.f), max(V(-104.5f), x + x)));
  }
};

// F(type, name, operands): each function alone and of a difference and a sum, as pairs.h names them.
#define TILE_COARSE_FORMS(F, name)                                    \
  F(coarse::name##_row, #name ".coarse", 1)                           \
  F(pairs::OfDifference<coarse::name##_row>, #name ".coarse(sub)", 2) \
  F(pairs::OfSum<coarse::name##_row>, #name ".coarse(fma)", 3)
#define TILE_COARSE_ROWS(F)                          \
  F(coarse::OnePlusTanh, "one_plus(tanh).coarse", 1) \
  TILE_COARSE_FORMS(F, exp)                          \
  TILE_COARSE_FORMS(F, sigmoid)                      \
  TILE_COARSE_FORMS(F, tanh)                         \
  TILE_COARSE_FORMS(F, silu)

}  // namespace tile::cpu::TILE_ISA::coarse
