// The functions that expressions of elementwise rows use, for one lane.
#pragma once
#include "cuda/device/types.cuh"

namespace tile {
namespace math {

#define TILE_FUNCTION1(NAME)                    \
  TILE f32 NAME(f32 x) { return ::NAME##f(x); } \
  TILE f64 NAME(f64 x) { return ::NAME(x); }
TILE_FUNCTION1(exp)
TILE_FUNCTION1(expm1)
TILE_FUNCTION1(log)
TILE_FUNCTION1(log2)
TILE_FUNCTION1(log1p)
TILE_FUNCTION1(sqrt)
TILE_FUNCTION1(sin)
TILE_FUNCTION1(cos)
TILE_FUNCTION1(tan)
TILE_FUNCTION1(sinh)
TILE_FUNCTION1(cosh)
TILE_FUNCTION1(tanh)
TILE_FUNCTION1(asin)
TILE_FUNCTION1(acos)
TILE_FUNCTION1(atan)
TILE_FUNCTION1(erf)
TILE_FUNCTION1(floor)
TILE_FUNCTION1(ceil)
TILE_FUNCTION1(trunc)
#undef TILE_FUNCTION1
TILE f32 exp2(f32 x) { return exp2_approximate(x); }
TILE f64 exp2(f64 x) { return ::exp2(x); }
TILE f32 round(f32 x) { return ::rintf(x); }
TILE f64 round(f64 x) { return ::rint(x); }
TILE f32 rsqrt(f32 x) { return ::rsqrtf(x); }
TILE f64 rsqrt(f64 x) { return ::rsqrt(x); }
TILE f32 abs(f32 x) { return ::fabsf(x); }
TILE f64 abs(f64 x) { return ::fabs(x); }
TILE f32 pow(f32 x, f32 y) { return ::powf(x, y); }
TILE f64 pow(f64 x, f64 y) { return ::pow(x, y); }
TILE f32 atan2(f32 x, f32 y) { return ::atan2f(x, y); }
TILE f64 atan2(f64 x, f64 y) { return ::atan2(x, y); }
TILE f32 fma(f32 x, f32 y, f32 z) { return ::fmaf(x, y, z); }
TILE f64 fma(f64 x, f64 y, f64 z) { return ::fma(x, y, z); }
TILE f32 min(f32 x, f32 y) { return ::fminf(x, y); }
TILE f64 min(f64 x, f64 y) { return ::fmin(x, y); }
TILE f32 max(f32 x, f32 y) { return ::fmaxf(x, y); }
TILE f64 max(f64 x, f64 y) { return ::fmax(x, y); }
TILE f32 remainder_trunc(f32 x, f32 y) { return ::fmodf(x, y); }
TILE f64 remainder_trunc(f64 x, f64 y) { return ::fmod(x, y); }

template <class X>
TILE X sigmoid(X x) {
  return X(1) / (X(1) + exp(-x));
}
template <class X>
TILE X silu(X x) {
  return x / (X(1) + exp(-x));
}
template <class X>
TILE bool isinf(X x) {
  return abs(x) == X(float_from_bits(0x7f800000u));
}

// floor(x / y) of the exact quotient; rounding the quotient first would sometimes be wrong.
template <class X>
TILE X floordiv(X x, X y) {
  if (y == 0) return x / y;
  const X rest = remainder_trunc(x, y);
  X quotient = (x - rest) / y;
  if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;
  if (quotient == 0) return x / y < 0 || (x / y == 0 && (x < 0) != (y < 0)) ? -X(0) : X(0);
  const X whole = floor(quotient);
  return quotient - whole > X(0.5) ? whole + 1 : whole;
}
template <class X>
TILE X mod(X x, X y) {
  const X rest = remainder_trunc(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

// Integers: x / 0 and x % 0 are 0, and dividing by -1 wraps.
template <class T>
TILE T quotient_trunc(T x, T y) {
  if (y == 0) return 0;
  if (T(-1) < T(0) && y == T(-1)) return (T)(0 - (Unsigned<T>)x);
  return (T)(x / y);
}
template <class T>
TILE T rest_trunc(T x, T y) {
  if (y == 0 || (T(-1) < T(0) && y == T(-1))) return 0;
  return (T)(x % y);
}
template <class T>
TILE Int<T> floordiv(Int<T> x, Int<T> y) {
  const T q = quotient_trunc<T>(x, y), r = rest_trunc<T>(x, y);
  return (T)(q - (r != 0 && (r < 0) != (y.value < 0)));
}
template <class T>
TILE Int<T> cdiv(Int<T> x, Int<T> y) {
  const T q = quotient_trunc<T>(x, y), r = rest_trunc<T>(x, y);
  return (T)(q + (r != 0 && (r < 0) == (y.value < 0)));
}
template <class T>
TILE Int<T> mod(Int<T> x, Int<T> y) {
  const T r = rest_trunc<T>(x, y);
  return (T)(r != 0 && (r < 0) != (y.value < 0) ? r + y.value : r);
}
template <class T>
TILE Int<T> abs(Int<T> x) {
  return x.value < T(0) ? -x : x;
}
template <class T>
TILE Int<T> min(Int<T> x, Int<T> y) {
  return y.value < x.value ? y : x;
}
template <class T>
TILE Int<T> max(Int<T> x, Int<T> y) {
  return y.value > x.value ? y : x;
}
template <class T>
TILE Int<T> fma(Int<T> x, Int<T> y, Int<T> z) {
  return x * y + z;
}
template <class T>
TILE Int<T> bitwise_not(Int<T> x) {
  return (T)~x.value;
}
// A negative count, or one of the width or more, shifts everything out.
template <class T>
TILE Int<T> shift_left(Int<T> x, Int<T> count) {
  const bool fits = (Unsigned<T>)count.value < sizeof(T) * 8;
  return (T)(fits ? (Unsigned<T>)((Unsigned<T>)x.value << count.value) : Unsigned<T>(0));
}
template <class T>
TILE Int<T> shift_right(Int<T> x, Int<T> count) {
  if ((Unsigned<T>)count.value < sizeof(T) * 8) return (T)(x.value >> count.value);
  return (T)(x.value < T(0) ? T(-1) : T(0));
}

}  // namespace math

// Conversions: a float to an integer truncates and saturates, and NaN becomes 0; integers wrap; to bool is !=
// 0.
template <class T>
struct Limits {
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr T high = (T)(is_signed ? (Unsigned<T>)~Unsigned<T>(0) >> 1 : (Unsigned<T>)~Unsigned<T>(0));
  static constexpr T low = is_signed ? (T)(-high - 1) : T(0);
};
template <class To, class From>
TILE To convert(From x) {
  constexpr bool to_integer = IsInteger<To>::value, from_integer = IsInteger<From>::value;
  constexpr bool from_bool = Same<From, bool>::value;
  if constexpr (Same<To, From>::value) {
    return x;
  } else if constexpr (Same<To, bool>::value) {
    return LaneOf<From>::in(x) != typename LaneOf<From>::type(0);
  } else if constexpr (to_integer && (from_integer || from_bool)) {
    return (To)x;
  } else if constexpr (to_integer) {
    const auto value = LaneOf<From>::in(x);
    using F = decltype(value + 0);
    if (value != value) return To(0);
    if (value <= (F)Limits<To>::low) return Limits<To>::low;
    if (value >= (F)Limits<To>::high) return Limits<To>::high;
    return (To)value;
  } else if constexpr (Same<To, f64>::value) {
    if constexpr (from_integer || from_bool)
      return (f64)x;
    else
      return (f64)LaneOf<From>::in(x);
  } else if constexpr (from_integer || from_bool) {
    return LaneOf<To>::out((f32)x);
  } else {
    return LaneOf<To>::out((f32)LaneOf<From>::in(x));
  }
}

}  // namespace tile
