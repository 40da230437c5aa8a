// Conversions between the element types of memory and registers. Float to integer truncates and saturates,
// and NaN becomes 0. Integer to narrower integer keeps the low bits. Anything to bool (a uint8_t of 0 or 1)
// is "not zero", NaN included. Integer and double to float round to nearest even; conversions to bf16 and f16
// go through float.
#pragma once
#include "cpu/vecmath/float8.h"
#include "cpu/vecmath/half.h"

namespace tile::cpu::TILE_ISA {

// Conversions with the same lane count and width: float <-> int32, double <-> int64.
template <class T>
TILE_INLINE Vec<T> to_float(Vec<IntOfSize<sizeof(T)>> x) {
  return __builtin_convertvector(x.v, Native<T>);
}
TILE_INLINE Vec<float> to_float(Vec<int32_t> x) { return to_float<float>(x); }
TILE_INLINE Vec<double> to_float(Vec<int64_t> x) { return to_float<double>(x); }

// Converts one Vec<float> to two Vec<double> (low lanes, high lanes), and back with rounding to nearest even.
template <class W>
struct Pair {
  W low, high;
};
TILE_INLINE Pair<Vec<double>> widen(Vec<float> x) {
  using Half = Native<float, vector_bytes / 2>;
  Half half[2];
  __builtin_memcpy(half, &x.v, vector_bytes);
  return {__builtin_convertvector(half[0], Native<double>), __builtin_convertvector(half[1], Native<double>)};
}
TILE_INLINE Vec<float> narrow(Pair<Vec<double>> x) {
  using Half = Native<float, vector_bytes / 2>;
  const Half half[2] = {__builtin_convertvector(x.low.v, Half), __builtin_convertvector(x.high.v, Half)};
  Vec<float> r;
  __builtin_memcpy(&r.v, half, vector_bytes);
  return r;
}

// Returns x + y rounded to odd: if the sum is inexact, the neighbour whose last bit is 1. Rounding that to
// float gives the same result as rounding the exact sum.
TILE_INLINE Vec<double> add_to_odd(Vec<double> x, Vec<double> y) {
  using V = Vec<double>;
  using I = Vec<int64_t>;
  const V sum = x + y, part = sum - x, lost = (x - (sum - part)) + (y - part);
  const I bits = bit_cast<I>(sum), even = (bits & I(1)) - I(1),
          away = ((bits ^ bit_cast<I>(lost)) >> 63) | I(1);
  return select((lost < V(0)) | (lost > V(0)), bit_cast<V>(bits + (away & even)), sum);
}

// a*b + c, rounded once on every chip, as the primitive requires. Vector functions and products use fma().
template <class T>
TILE_INLINE Vec<T> fma_once(Vec<T> a, Vec<T> b, Vec<T> c) {
  if constexpr (has_fma || std::is_integral_v<T>) {
    return fma(a, b, c);
  } else if constexpr (std::is_same_v<T, float>) {  // the product of two floats is exact as a double
    const auto x = widen(a), y = widen(b), z = widen(c);
    return narrow(Pair<Vec<double>>{add_to_odd(x.low * y.low, z.low), add_to_odd(x.high * y.high, z.high)});
  } else {
    T x[Vec<T>::lanes], y[Vec<T>::lanes], z[Vec<T>::lanes];
    a.store(x), b.store(y), c.store(z);
    for (int i = 0; i < Vec<T>::lanes; ++i) z[i] = __builtin_fma(x[i], y[i], z[i]);
    return Vec<T>::load(z);
  }
}

// c - a*b, with the same rounding.
template <class T>
TILE_INLINE Vec<T> fnma_once(Vec<T> a, Vec<T> b, Vec<T> c) {
  return has_fma ? fnma(a, b, c) : fma_once(-a, b, c);
}

// Truncates values that are known to fit.
TILE_INLINE Vec<int32_t> to_int_unchecked(Vec<float> x) {
#if TILE_VECTOR_BYTES == 64
  return (Native<int32_t>)_mm512_cvttps_epi32(x.v);
#elif TILE_VECTOR_BYTES == 32
  return (Native<int32_t>)_mm256_cvttps_epi32(x.v);
#else
  return (Native<int32_t>)_mm_cvttps_epi32(x.v);
#endif
}
TILE_INLINE Vec<int64_t> to_int_unchecked(Vec<double> x) {
#if TILE_VECTOR_BYTES == 64
  return (Native<int64_t>)_mm512_cvttpd_epi64(x.v);
#else
  return __builtin_convertvector(x.v, Native<int64_t>);
#endif
}
TILE_INLINE Vec<int32_t> to_int(Vec<float> x) {
  using I = Vec<int32_t>;
  const I in_range = to_int_unchecked(select(is_nan(x), Vec<float>(0.f), x));  // too small: already INT_MIN
  return select(mask_cast<int32_t>(x >= Vec<float>(0x1p31f)), I(0x7fffffff), in_range);
}

// bool in memory is one byte; Bool distinguishes it from uint8_t in the templates below.
struct Bool {
  uint8_t value;
};

template <class T>
constexpr bool is_small_float = std::is_same_v<T, bf16> || std::is_same_v<T, f16> ||
                                std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;
// The type that a stored value is computed in.
template <class T>
using Compute =
    std::conditional_t<is_small_float<T>, float, std::conditional_t<std::is_same_v<T, Bool>, uint8_t, T>>;

template <class T>
TILE_INLINE Compute<T> to_compute(T x) {
  if constexpr (std::is_same_v<T, Bool>)
    return x.value != 0;
  else if constexpr (is_small_float<T>)
    return to_float(x);
  else
    return x;
}

template <class To, class From>
TILE_INLINE To saturate(From x) {
  // Both bounds are exact in From: the lower is a power of two or 0, the upper is one more than To's largest.
  constexpr int bits = static_cast<int>(sizeof(To)) * 8 - std::is_signed_v<To>;
  constexpr From end = static_cast<From>(1ull << (bits - 1)) * From(2);
  constexpr From begin = std::is_signed_v<To> ? -end : From(0);
  constexpr To largest = static_cast<To>(bits == 64 ? ~0ull : (1ull << (bits & 63)) - 1);
  constexpr To smallest = std::is_signed_v<To> ? static_cast<To>(-largest - 1) : To(0);
  if (x != x) return To(0);
  if (x >= end) return largest;
  if (x <= begin) return smallest;
  return static_cast<To>(x);
}

template <class To, class From>
TILE_INLINE To cast(From stored) {
  const auto x = to_compute(stored);
  using X = Compute<From>;
  if constexpr (std::is_same_v<To, From>)
    return stored;
  else if constexpr (std::is_same_v<To, Bool>)
    return {static_cast<uint8_t>(x != X(0))};
  else if constexpr (std::is_same_v<To, bf16>)
    return to_bf16(static_cast<float>(x));
  else if constexpr (std::is_same_v<To, f16>)
    return to_f16(static_cast<float>(x));
  else if constexpr (std::is_same_v<To, f8e4m3>)
    return to_f8e4m3(static_cast<float>(x));
  else if constexpr (std::is_same_v<To, f8e5m2>)
    return to_f8e5m2(static_cast<float>(x));
  else if constexpr (std::is_floating_point_v<X> && std::is_integral_v<To>)
    return saturate<To>(x);
  else
    return static_cast<To>(x);
}

// Converts n elements from one array to another; they must not overlap unless From and To have one size and
// from == to.
template <class To, class From>
static void cast_array(const From* from, To* to, long n) {
  constexpr int lanes = Vec<float>::lanes;
  long i = 0;
  if constexpr ((std::is_same_v<From, bf16> || std::is_same_v<From, f16>)&&std::is_same_v<To, float>) {
    for (; i + lanes <= n; i += lanes) load_half(from + i).store(to + i);
    if (i < n) load_half(from + i, n - i).store(to + i, n - i);
  } else if constexpr (std::is_same_v<From, float> && (std::is_same_v<To, bf16> || std::is_same_v<To, f16>)) {
    for (; i + 2 * lanes <= n; i += 2 * lanes)
      store_half_pair(to + i, Vec<float>::load(from + i), Vec<float>::load(from + i + lanes));
    for (; i + lanes <= n; i += lanes) store_half(to + i, Vec<float>::load(from + i));
    if (i < n) store_half(to + i, Vec<float>::load(from + i, n - i), n - i);
  } else {
    for (; i < n; ++i) to[i] = cast<To>(from[i]);
  }
}

}  // namespace tile::cpu::TILE_ISA
