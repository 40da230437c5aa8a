// exp, exp2, expm1, sigmoid, silu, 1 + tanh; each a template over a vector type. float <= 2.5 ulp, double
// lane by lane.
#pragma once
#include "cpu/vecmath/coefficients.h"
#include "cpu/vecmath/vec_math.h"

namespace tile::cpu::TILE_ISA {

template <class V>
constexpr bool in_double = std::is_same_v<typename V::Element, double>;

// x = n ln 2 + r with integral n and |r| <= ln 2 / 2. n is computed by adding 1.5 * 2^23 (plus a bias), after
// which the low bits hold it.
template <class V>
struct Exponent {
  typename V::Bits bits;  // low bits: n + bias
  V r;
};
template <int bias, class V>
TILE_INLINE Exponent<V> split_exponent(V x) {
  const V magic(0x1.8p23f + bias);
  const V t = fma(x, V(1.44269504f), magic), n = t - magic;
  V r = fnma(n, V(0.693145752f), x);  // 15 bits: the product is exact
  r = fnma(n, V(1.42860677e-6f), r);
  return {bit_cast<typename V::Bits>(t), r};
}
// exp(r) - 1 on that interval. Horner's rule would have a longer dependency chain.
template <class V>
TILE_INLINE V expm1_reduced(V r) {
  const auto& c = fitted::exp_tail;
  static_assert(sizeof(c) / sizeof(c[0]) == 5);
  const V square = r * r, low = fma(V(c[1]), r, V(c[0])), high = fma(V(c[3]), r, V(c[2]));
  return fma(fma(fma(V(c[4]), square, high), square, low), square, r);
}
// 1 - exp(-r), in the same way.
template <class V>
TILE_INLINE V decay_reduced(V r) {
  const auto& c = fitted::exp_tail;
  const V square = r * r, low = fma(V(-c[1]), r, V(c[0])), high = fma(V(-c[3]), r, V(c[2]));
  return fnma(fma(fma(V(c[4]), square, high), square, low), square, r);
}
// p 2^n for bits = n + 254, in two factors, so that results down to the smallest subnormal are rounded once.
template <class V>
TILE_INLINE V scale_by_exponent(V p, typename V::Bits bits) {
  const auto half = bits >> 1;
  return (p * bit_cast<V>(half << 23)) * bit_cast<V>((bits - half) << 23);
}

// With AVX-512 a table of 2^(k/16) replaces most of the polynomial: x = n ln 2 + r with integral 16 n and |r|
// <= ln 2 / 32. It handles every x: if there is no such n, r is clamped and n alone determines the result.
template <class V>
concept Wide = FloatVector<V> && requires(V x, typename V::Bits bits) {
  power_of_sixteenths<0>(bits);
  scale(limited(x, x), x);
};
// After adding this to n, the low four bits hold the fraction of n.
static constexpr float sixteenths_magic = 0x1.8p19f, most_sixteenth = 0x1.63p-6f;  // of r
// power (1 + tail) 2^n for t = n + sixteenths_magic.
template <Wide V>
TILE_INLINE V scaled_power(V t, V n, V tail) {
  const V power = power_of_sixteenths<0>(bit_cast<typename V::Bits>(t));
  return scale(fma(power, tail, power), n);
}
template <Wide V>
TILE_INLINE V exp_wide(V x) {
  const auto& c = fitted::exp_short;
  const V magic(sixteenths_magic), t = fma(x, V(1.44269504f), magic), n = t - magic;
  V r = fnma(n, V(0.693145752f), x);  // 15 bits: the product is exact
  r = limited(fnma(n, V(1.42860677e-6f), r), V(most_sixteenth));
  return scaled_power(t, n, fma(fma(V(c[1]), r, V(c[0])), r * r, r));
}
template <Wide V>
TILE_INLINE V exp2_wide(V x) {
  const auto& c = fitted::exp2_short;
  const V magic(sixteenths_magic), t = x + magic, n = t - magic, r = limited(x - n, V(0x1p-5f));
  return scaled_power(t, n, fma(fma(V(c[2]), r, V(c[1])), r, V(c[0])) * r);
}

// exp(x) 2^shift for every x: subnormal results, 0, infinity, NaN.
template <int shift, class V>
TILE_INLINE V exp_shifted(V x) {
  // The constant is the first operand, because min and max return the second operand if it is NaN.
  const auto e = split_exponent<254 + shift>(min(V(89.5f), max(V(-104.5f), x)));
  return scale_by_exponent(expm1_reduced(e.r) + V(1.f), e.bits);
}

// exp(x) for -87.33 <= x <= 88.37 or NaN.
template <class V>
TILE_INLINE V exp_normal(V x) {
  const auto e = split_exponent<127>(x);
  return (expm1_reduced(e.r) + V(1.f)) * bit_cast<V>(e.bits << 23);
}
// The same for x in that range and not NaN. An integer addition puts 2^n into the exponent, since
// multiplications limit the speed of these functions.
template <class V>
TILE_INLINE V exp_ordinary(V x) {
  using B = typename V::Bits;
  const auto e = split_exponent<0>(x);
  return bit_cast<V>(bit_cast<B>(expm1_reduced(e.r) + V(1.f)) + (e.bits << 23));
}
// Returns a mask of lanes so near 0 that neither exp(x) nor exp(-x) overflows or is subnormal. Most vectors
// have only such lanes. Types that cannot test this take the general way, which gives the same bits.
template <class V>
TILE_INLINE typename V::MaskType exp_is_normal_of(V x) {
  return clear_sign(x) <= V(87.25f);
}
template <class V>
TILE_INLINE bool exp_is_normal(V x) {
  if constexpr (requires(typename V::MaskType m) { all(m); })
    return __builtin_expect(all(exp_is_normal_of(x)), 1);
  else
    return false;
}
template <FloatVector V>
TILE_INLINE V exp(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_exp(a); }, x);
  } else {
    if constexpr (Wide<V>)
      if (is_wide(x)) return exp_wide(x);
    return exp_is_normal(x) ? exp_ordinary(x) : exp_shifted<0>(x);
  }
}
template <FloatVector V>
TILE_INLINE V exp2(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_exp2(a); }, x);
  } else {
    if constexpr (Wide<V>)
      if (is_wide(x)) return exp2_wide(x);
    const V magic(0x1.8p23f + 254), clamped = min(V(129.f), max(V(-151.f), x));
    const V t = clamped + magic, n = t - magic, r = (clamped - n) * V(0.693147181f);
    return scale_by_exponent(expm1_reduced(r) + V(1.f), bit_cast<typename V::Bits>(t));
  }
}

template <FloatVector V>
TILE_INLINE V expm1(V x) {
  if constexpr (in_double<V>) {
    return map_lanes([](double a) { return __builtin_expm1(a); }, x);
  } else {
    // 2^n (1 + m) - 1 = 2 (s m + (s - 1/2)) with s = 2^(n-1), which avoids early overflow.
    const auto e = split_exponent<126>(min(V(88.9f), max(V(-20.f), x)));
    const V s = bit_cast<V>(e.bits << 23), r = fma(expm1_reduced(e.r), s, s - V(0.5f));
    return with_sign(clear_sign(r + r), x);
  }
}

// 2^shift (1 + exp(-x)) for x such that 2^shift exp(-x) is a normal number. With exp(-x) = 2^n (1 - d) it
// equals (2^n + 1) - d 2^n: it is rounded twice, and -x, 1 - d and the product are never computed.
template <int shift, class V>
TILE_INLINE V one_and_exp_of_negative(V x) {
  const V magic(0x1.8p23f + (127 + shift));
  const V t = fnma(x, V(1.44269504f), magic), minus_n = magic - t;
  V r = fnma(minus_n, V(0.693145752f), x);
  r = fnma(minus_n, V(1.42860677e-6f), r);
  const V power = bit_cast<V>(bit_cast<typename V::Bits>(t) << 23);
  return fnma(decay_reduced(r), power, power + V(shift == 0 ? 1.f : 0x1p-64f));
}

// 1 / (1 + exp(-x)). Far from 0, float multiplies numerator and denominator by 2^-64, so that the division
// yields results down to the smallest subnormal with one rounding. double starts from exp(-|x|) and corrects
// the rounding error of the sum.
template <FloatVector V>
TILE_INLINE V sigmoid(V x) {
  if constexpr (in_double<V>) {
    const V e = exp(-clear_sign(x)), sum = V(1.) + e, value = select(x < V(0.), e, V(1.)) / sum;
    return fnma(value, (e - (sum - V(1.))) / sum, value);
  } else {
    if (exp_is_normal(x)) return V(1.f) / one_and_exp_of_negative<0>(x);
    return V(0x1p-64f) / one_and_exp_of_negative<-64>(min(V(30.f), max(V(-104.5f), x)));
  }
}

// 1 + tanh(x) = 2 / (1 + exp(-2x)), which keeps its precision where tanh is near -1.
template <FloatVector V>
TILE_INLINE V one_plus_tanh(V x) {
  const V y = x + x;
  if constexpr (in_double<V>) {
    const V half = sigmoid(y);
    return half + half;
  } else {
    return V(0x1p-63f) / one_and_exp_of_negative<-64>(min(V(30.f), max(V(-104.5f), y)));
  }
}

// x sigmoid(x).
template <FloatVector V>
TILE_INLINE V silu(V x) {
  if constexpr (in_double<V>) {
    return x * sigmoid(x);
  } else {
    const auto quotient = [&] { return x / one_and_exp_of_negative<0>(x); };
    return exp_is_normal(x) ? quotient() : select(exp_is_normal_of(x), quotient(), x * sigmoid(x));
  }
}

}  // namespace tile::cpu::TILE_ISA
