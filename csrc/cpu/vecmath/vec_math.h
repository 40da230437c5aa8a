// Operations of Vec in addition to the operators: fma, min and max, signs, square root, rounding to an
// integer.
#pragma once
#include "cpu/vecmath/coefficients.h"
#include "cpu/vecmath/vec.h"

namespace tile::cpu::TILE_ISA {

// Expands to one instruction for float or double; the baseline has its own code below.
#if TILE_VECTOR_BYTES == 64
#define TILE_X86(op, a, ...)                                                         \
  if constexpr (std::is_same_v<T, float>) return _mm512_##op##_ps(a, ##__VA_ARGS__); \
  if constexpr (std::is_same_v<T, double>) return _mm512_##op##_pd(a, ##__VA_ARGS__)
#elif TILE_VECTOR_BYTES == 32
#define TILE_X86(op, a, ...)                                                         \
  if constexpr (std::is_same_v<T, float>) return _mm256_##op##_ps(a, ##__VA_ARGS__); \
  if constexpr (std::is_same_v<T, double>) return _mm256_##op##_pd(a, ##__VA_ARGS__)
#else
#define TILE_X86(op, a, ...)                                                      \
  if constexpr (std::is_same_v<T, float>) return _mm_##op##_ps(a, ##__VA_ARGS__); \
  if constexpr (std::is_same_v<T, double>) return _mm_##op##_pd(a, ##__VA_ARGS__)
#endif

// a*b + c, rounded once if the hardware can; the baseline also rounds the product. Integers wrap.
template <class T>
TILE_INLINE Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) {
#if TILE_VECTOR_BYTES > 16
  TILE_X86(fmadd, a.v, b.v, c.v);
#endif
  return a * b + c;
}
// c - a*b, with the same rounding.
template <class T>
TILE_INLINE Vec<T> fnma(Vec<T> a, Vec<T> b, Vec<T> c) {
#if TILE_VECTOR_BYTES > 16
  TILE_X86(fnmadd, a.v, b.v, c.v);
#endif
  return c - a * b;
}

// a < b ? a : b with the hardware's semantics: if either is NaN, or both are zeros, the result is b.
template <class T>
TILE_INLINE Vec<T> min(Vec<T> a, Vec<T> b) {
  TILE_X86(min, a.v, b.v);
  return select(a < b, a, b);
}
template <class T>
TILE_INLINE Vec<T> max(Vec<T> a, Vec<T> b) {
  TILE_X86(max, a.v, b.v);
  return select(a > b, a, b);
}
#if TILE_VECTOR_BYTES == 64
// Also orders the two zeros; for a quiet NaN and another operand it returns the other.
TILE_INLINE Vec<float> lesser(Vec<float> a, Vec<float> b) { return _mm512_range_ps(a.v, b.v, 4); }
TILE_INLINE Vec<float> greater(Vec<float> a, Vec<float> b) { return _mm512_range_ps(a.v, b.v, 5); }
// Makes a NaN quiet.
TILE_INLINE Vec<float> quiet(Vec<float> x) { return greater(x, x); }
// x if |x| is less, else limit with the sign of x; limit if x is NaN.
TILE_INLINE Vec<float> limited(Vec<float> x, Vec<float> limit) { return _mm512_range_ps(x.v, limit.v, 2); }
// x 2^floor(n), rounded once.
TILE_INLINE Vec<float> scale(Vec<float> x, Vec<float> n) { return _mm512_scalef_ps(x.v, n.v); }
// 2^(k/16 + shift), where k is the low four bits.
template <int shift>
TILE_INLINE Vec<float> power_of_sixteenths(Vec<int32_t> bits) {
  constexpr float factor = shift == 0 ? 1 : 0x1p-64f;
  static_assert(shift == 0 || shift == -64);
  Vec<float> powers;
  for (int k = 0; k < 16; ++k) powers.v[k] = fitted::sixteenths[k] * factor;
  return _mm512_permutexvar_ps((__m512i)bits.v, powers.v);
}
#endif
// Returns true if these functions exist. The recording type has them, and answers for the target instruction
// set.
template <class V>
TILE_INLINE constexpr bool is_wide(V) {
  return true;
}

// These functions, like those below, accept any type with the operations of Vec.

// `number` tells the recording type that a value is never NaN. `rounds_plainly` asks it whether the value's
// NaNs, if any, survive the addition that rounds to bf16.
template <class V>
TILE_INLINE V number(V x) {
  return x;
}
template <class V>
TILE_INLINE constexpr bool rounds_plainly(V) {
  return false;
}
template <class V>
TILE_INLINE typename V::MaskType is_nan(V x) {
  return x != x;
}
// A NaN operand determines the result.
template <class V>
TILE_INLINE V min_nan(V a, V b) {
  if constexpr (std::is_integral_v<typename V::Element>) return min(a, b);
  return select(is_nan(a), a, min(a, b));
}
template <class V>
TILE_INLINE V max_nan(V a, V b) {
  if constexpr (std::is_integral_v<typename V::Element>) return max(a, b);
  return select(is_nan(a), a, max(a, b));
}
// A NaN operand is ignored; the result is NaN if both are.
template <class V>
TILE_INLINE V min_number(V a, V b) {
  if constexpr (std::is_integral_v<typename V::Element>) return min(a, b);
  if constexpr (requires { lesser(a, b); })
    if (is_wide(a)) return lesser(quiet(a), quiet(b));
  return select(is_nan(b), a, min(a, b));
}
template <class V>
TILE_INLINE V max_number(V a, V b) {
  if constexpr (std::is_integral_v<typename V::Element>) return max(a, b);
  if constexpr (requires { greater(a, b); })
    if (is_wide(a)) return greater(quiet(a), quiet(b));
  return select(is_nan(b), a, max(a, b));
}

// The sign bit alone, and the value without it.
template <class V>
TILE_INLINE V sign_bit(V x) {
  using B = typename V::Bits;
  return bit_cast<V>(bit_cast<B>(x) & bit_cast<B>(V(typename V::Element(-0.0))));
}
template <class V>
TILE_INLINE V clear_sign(V x) {
  using B = typename V::Bits;
  return bit_cast<V>(bit_cast<B>(x) & ~bit_cast<B>(V(typename V::Element(-0.0))));
}
// Returns a mask of lanes whose sign bit is set, including -0 and NaN.
template <class V>
TILE_INLINE typename V::MaskType sign_set(V x) {
  using B = typename V::Bits;
  return mask_cast<typename V::Element>(bit_cast<B>(x) < B(0));
}
// Returns magnitude (whose own sign bit must be clear) with the sign bit of `sign`.
template <class V>
TILE_INLINE V with_sign(V magnitude, V sign) {
  using B = typename V::Bits;
  return bit_cast<V>(bit_cast<B>(magnitude) | bit_cast<B>(sign_bit(sign)));
}
// Returns x with its sign bit flipped if that of `sign` is set.
template <class V>
TILE_INLINE V flip_sign(V x, V sign) {
  using B = typename V::Bits;
  return bit_cast<V>(bit_cast<B>(x) ^ bit_cast<B>(sign_bit(sign)));
}
// The most negative integer is unchanged; for unsigned types this is the identity.
template <class T>
TILE_INLINE Vec<T> abs(Vec<T> x) {
  if constexpr (std::is_floating_point_v<T>) return clear_sign(x);
  if constexpr (std::is_unsigned_v<T>) return x;
  return select(x < Vec<T>(T(0)), -x, x);
}

template <class T>
TILE_INLINE Vec<T> sqrt(Vec<T> x) {
  static_assert(std::is_floating_point_v<T>);
  TILE_X86(sqrt, x.v);
}
template <FloatVector V>
TILE_INLINE V rsqrt(V x) {
  return V(1) / sqrt(x);
}

#if TILE_VECTOR_BYTES == 16
// Rounds to the nearest integer, halves to even: adding 2^23 (2^52) shifts the fraction out.
template <class T>
TILE_INLINE Vec<T> round(Vec<T> x) {
  static_assert(std::is_floating_point_v<T>);
  const Vec<T> big(sizeof(T) == 4 ? T(0x1p23) : T(0x1p52)), magnitude = abs(x);
  return select(magnitude < big, with_sign((magnitude + big) - big, x), x);
}
template <class T>
TILE_INLINE Vec<T> floor(Vec<T> x) {
  const Vec<T> r = round(x);
  return with_sign(abs(select(r > x, r - Vec<T>(1), r)), x);
}
template <class T>
TILE_INLINE Vec<T> ceil(Vec<T> x) {
  const Vec<T> r = round(x);
  return with_sign(abs(select(r < x, r + Vec<T>(1), r)), x);
}
template <class T>
TILE_INLINE Vec<T> trunc(Vec<T> x) {
  return with_sign(floor(abs(x)), x);
}
#else
#if TILE_VECTOR_BYTES == 64
#define TILE_ROUND(mode) TILE_X86(roundscale, x.v, (mode) | _MM_FROUND_NO_EXC)
#else
#define TILE_ROUND(mode) TILE_X86(round, x.v, (mode) | _MM_FROUND_NO_EXC)
#endif
// Rounds to the nearest integer, halves to even.
template <class T>
TILE_INLINE Vec<T> round(Vec<T> x) {
  TILE_ROUND(_MM_FROUND_TO_NEAREST_INT);
}
template <class T>
TILE_INLINE Vec<T> floor(Vec<T> x) {
  TILE_ROUND(_MM_FROUND_TO_NEG_INF);
}
template <class T>
TILE_INLINE Vec<T> ceil(Vec<T> x) {
  TILE_ROUND(_MM_FROUND_TO_POS_INF);
}
template <class T>
TILE_INLINE Vec<T> trunc(Vec<T> x) {
  TILE_ROUND(_MM_FROUND_TO_ZERO);
}
#undef TILE_ROUND
#endif
#undef TILE_X86

// c0 + c1 t + c2 t² + …, by Horner's rule.
template <class V, class T, int n>
TILE_INLINE V polynomial(V t, const T (&c)[n]) {
  V p(c[n - 1]);
#pragma GCC unroll 16
  for (int i = n - 2; i >= 0; --i) p = fma(p, t, V(c[i]));
  return p;
}

// Applies f to each lane, for functions that have no vector form.
template <class T, class F>
TILE_INLINE Vec<T> map_lanes(F f, Vec<T> x) {
  T lane[Vec<T>::lanes];
  x.store(lane);
  for (T& value : lane) value = f(value);
  return Vec<T>::load(lane);
}
template <class T, class F>
TILE_INLINE Vec<T> map_lanes(F f, Vec<T> x, Vec<T> y) {
  T a[Vec<T>::lanes], b[Vec<T>::lanes];
  x.store(a);
  y.store(b);
  for (int i = 0; i < Vec<T>::lanes; ++i) a[i] = f(a[i], b[i]);
  return Vec<T>::load(a);
}
// Returns result with the (rare) lanes of `where` replaced by f(x).
template <class T, class F>
TILE_INLINE Vec<T> repair_lanes(Vec<T> result, Mask<T> where, F f, Vec<T> x) {
  if (__builtin_expect(any(where), 0)) result = select(where, map_lanes(f, x), result);
  return result;
}

}  // namespace tile::cpu::TILE_ISA
