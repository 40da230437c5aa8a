// Operations of Vec beyond the operators: fma, min and max, signs, square root, rounding to an integer.
#pragma once
#include "cpu/vecmath/coefficients.h"
#include "cpu/vecmath/vec.h"

namespace tile::cpu::TILE_ISA {

// One instruction of the float or double form; the baseline has it written below.
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

// a*b + c, rounded once where the hardware can; the baseline rounds the product too. Integers wrap.
template <class T>
TILE_INLINE Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) {
#if TILE_VECTOR_BYTES > 16
  TILE_X86(fmadd, a.v, b.v, c.v);
#endif
  return a * b + c;
}
// c - a*b, likewise.
template <class T>
TILE_INLINE Vec<T> fnma(Vec<T> a, Vec<T> b, Vec<T> c) {
#if TILE_VECTOR_BYTES > 16
  TILE_X86(fnmadd, a.v, b.v, c.v);
#endif
  return c - a * b;
}

// a < b ? a : b as the hardware has it: where either is NaN, or both are zeros, the result is b.
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
// Compares two numbers, also two zeros; for a quiet NaN and another operand it returns the other.
TILE_INLINE Vec<float> lesser(Vec<float> a, Vec<float> b) { return _mm512_range_ps(a.v, b.v, 4); }
TILE_INLINE Vec<float> greater(Vec<float> a, Vec<float> b) { return _mm512_range_ps(a.v, b.v, 5); }
// NaN as a quiet one.
TILE_INLINE Vec<float> quiet(Vec<float> x) { return greater(x, x); }
// x where |x| is less, else limit with its sign; limit of NaN.
TILE_INLINE Vec<float> limited(Vec<float> x, Vec<float> limit) { return _mm512_range_ps(x.v, limit.v, 2); }
// x 2^n rounded once, of the whole number below n.
TILE_INLINE Vec<float> scale(Vec<float> x, Vec<float> n) { return _mm512_scalef_ps(x.v, n.v); }
// 2^(k/16 + shift) of k in the low four bits.
template <int shift>
TILE_INLINE Vec<float> power_of_sixteenths(Vec<int32_t> bits) {
  constexpr float factor = shift == 0 ? 1 : 0x1p-64f;
  static_assert(shift == 0 || shift == -64);
  Vec<float> powers;
  for (int k = 0; k < 16; ++k) powers.v[k] = fitted::sixteenths[k] * factor;
  return _mm512_permutexvar_ps((__m512i)bits.v, powers.v);
}
#endif
// Asked where there are these: recordings have them, and know whether their instructions do.
template <class V>
TILE_INLINE constexpr bool is_wide(V) {
  return true;
}

// These, as what follows, take any type with the operations of Vec.

// A recording may be told that a value is never NaN. It may be asked whether the value's NaNs, if
// any, stay as they are where bf16's rounding adds to their low halves.
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
// A NaN operand wins.
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
// A NaN operand is ignored; NaN where both are.
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

// The sign bit alone, and the rest.
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
// Where the sign bit is set: -0 and NaN too.
template <class V>
TILE_INLINE typename V::MaskType sign_set(V x) {
  using B = typename V::Bits;
  return mask_cast<typename V::Element>(bit_cast<B>(x) < B(0));
}
// magnitude (whose own sign bit must be clear) with the sign bit of `sign`.
template <class V>
TILE_INLINE V with_sign(V magnitude, V sign) {
  using B = typename V::Bits;
  return bit_cast<V>(bit_cast<B>(magnitude) | bit_cast<B>(sign_bit(sign)));
}
// x with its sign bit flipped where that of `sign` is set.
template <class V>
TILE_INLINE V flip_sign(V x, V sign) {
  using B = typename V::Bits;
  return bit_cast<V>(bit_cast<B>(x) ^ bit_cast<B>(sign_bit(sign)));
}
// The most negative integer stays itself; unsigned is the identity.
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
// Nearest integer, halves to even: adding 2^23 (2^52) pushes the fraction out of the word.
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
// Nearest integer, halves to even.
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

// f of each lane: for what is not worth, or not possible, in vectors.
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
// result with the (rare) lanes of `where` replaced by f(x).
template <class T, class F>
TILE_INLINE Vec<T> repair_lanes(Vec<T> result, Mask<T> where, F f, Vec<T> x) {
  if (__builtin_expect(any(where), 0)) result = select(where, map_lanes(f, x), result);
  return result;
}

}  // namespace tile::cpu::TILE_ISA
