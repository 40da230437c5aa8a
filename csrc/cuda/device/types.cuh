// Element types, and the types that arithmetic uses: float32 for 16-bit floats, and integers that wrap.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};
struct f8e4m3 {
  u8 bits;
};
struct f8e5m2 {
  u8 bits;
};
struct tf32 {
  f32 value;
};

template <class X, class Y>
struct Same {
  static constexpr bool value = false;
};
template <class X>
struct Same<X, X> {
  static constexpr bool value = true;
};
template <class T>
struct IsInteger {
  static constexpr bool value = Same<T, i8>::value || Same<T, i16>::value || Same<T, i32>::value ||
                                Same<T, i64>::value || Same<T, u8>::value || Same<T, u16>::value ||
                                Same<T, u32>::value || Same<T, u64>::value;
};
template <int bytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = u8;
};
template <>
struct UnsignedOf<2> {
  using type = u16;
};
template <>
struct UnsignedOf<4> {
  using type = u32;
};
template <>
struct UnsignedOf<8> {
  using type = u64;
};
template <class T>
using Unsigned = typename UnsignedOf<sizeof(T)>::type;

template <class To, class From>
TILE To bitcast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bitcast: the widths differ");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

// An integer whose sums, differences and products wrap; signed overflow is undefined in C++.
template <class T>
struct Int {
  using U = Unsigned<T>;
  T value;
  TILE Int(T x) : value(x) {}
  TILE operator T() const { return value; }
  friend TILE Int operator+(Int x, Int y) { return (T)(U)((U)x.value + (U)y.value); }
  friend TILE Int operator-(Int x, Int y) { return (T)(U)((U)x.value - (U)y.value); }
  // Multiplies as u32: a product of two u16 would be an int that overflows.
  friend TILE Int operator*(Int x, Int y) {
    if constexpr (sizeof(T) < 4)
      return (T)((u32)x.value * (u32)y.value);
    else
      return (T)((U)x.value * (U)y.value);
  }
  friend TILE Int operator-(Int x) { return (T)(U)(0 - (U)x.value); }
  friend TILE Int operator&(Int x, Int y) { return (T)(x.value & y.value); }
  friend TILE Int operator|(Int x, Int y) { return (T)(x.value | y.value); }
  friend TILE Int operator^(Int x, Int y) { return (T)(x.value ^ y.value); }
  friend TILE bool operator==(Int x, Int y) { return x.value == y.value; }
  friend TILE bool operator!=(Int x, Int y) { return x.value != y.value; }
  friend TILE bool operator<(Int x, Int y) { return x.value < y.value; }
  friend TILE bool operator<=(Int x, Int y) { return x.value <= y.value; }
  friend TILE bool operator>(Int x, Int y) { return x.value > y.value; }
  friend TILE bool operator>=(Int x, Int y) { return x.value >= y.value; }
};

// Bits of small floats by their fields. f8e4m3 has no infinity and one NaN per sign.
template <int exponent_bits, int mantissa_bits, bool infinite>
TILE u32 bits_of_small(f32 x) {
  const u32 bits = bits_of(x), sign = bits >> 31 << (exponent_bits + mantissa_bits),
            size = bits & 0x7fffffffu;
  constexpr int bias = (1 << (exponent_bits - 1)) - 1, dropped = 23 - mantissa_bits;
  constexpr u32 top = (1u << (exponent_bits + mantissa_bits)) - 1;
  constexpr u32 nan = infinite ? top - (1u << mantissa_bits) + 1 + (1u << (mantissa_bits - 1)) : top;
  constexpr u32 infinity = top - (1u << mantissa_bits) + 1;
  if (size > 0x7f800000u) return sign | nan;
  u32 rounded;
  if (size < (u32)(127 - bias + 1) << 23) {
    // Subnormal in the target type: adding a power of two leaves the rounded field in the low bits.
    constexpr u32 magic = (u32)(127 - bias + 1 + dropped) << 23;
    rounded = bits_of(float_from_bits(size) + float_from_bits(magic)) - magic;
  } else {
    rounded = (size + (1u << (dropped - 1)) - 1 + (size >> dropped & 1)) >> dropped;
    rounded -= (u32)(127 - bias) << mantissa_bits;
  }
  if (infinite) return sign | (rounded > infinity ? infinity : rounded);
  return sign | (rounded > top - 1 ? top - 1 : rounded);
}
template <int exponent_bits, int mantissa_bits, bool infinite>
TILE f32 small_from_bits(u32 bits) {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1, dropped = 23 - mantissa_bits;
  constexpr u32 top = (1u << (exponent_bits + mantissa_bits)) - 1;
  const u32 sign = bits >> (exponent_bits + mantissa_bits) << 31, size = bits & top;
  constexpr u32 infinity = top - (1u << mantissa_bits) + 1;
  if (infinite ? size > infinity : size == top) return float_from_bits(sign | 0x7fc00000u);
  if (infinite && size == infinity) return float_from_bits(sign | 0x7f800000u);
  // Multiplying by a power of two makes subnormals normal.
  const f32 value = float_from_bits(size << dropped) * float_from_bits((u32)(254 - bias) << 23);
  return float_from_bits(sign | bits_of(value));
}

TILE f32 to_float(bf16 x) { return float_from_bits((u32)x.bits << 16); }
TILE f32 to_float(f16 x) { return f16_from_bits(x.bits); }
TILE f32 to_float(f8e4m3 x) { return small_from_bits<4, 3, false>(x.bits); }
TILE f32 to_float(f8e5m2 x) { return small_from_bits<5, 2, true>(x.bits); }
TILE f32 to_float(tf32 x) { return x.value; }

template <class T>
struct FromFloat;
template <>
struct FromFloat<bf16> {
  TILE static bf16 of(f32 x) { return {bits_of_bf16(x)}; }
};
template <>
struct FromFloat<f16> {
  TILE static f16 of(f32 x) { return {bits_of_f16(x)}; }
};
template <>
struct FromFloat<f8e4m3> {
  TILE static f8e4m3 of(f32 x) { return {(u8)bits_of_small<4, 3, false>(x)}; }
};
template <>
struct FromFloat<f8e5m2> {
  TILE static f8e5m2 of(f32 x) { return {(u8)bits_of_small<5, 2, true>(x)}; }
};
template <>
struct FromFloat<tf32> {
  TILE static tf32 of(f32 x) {
    const u32 bits = bits_of(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return {x};
    return {float_from_bits((bits + 0xfffu + (bits >> 13 & 1)) & 0xffffe000u)};
  }
};

// Converts a value of T to the type that it is computed in, and back.
template <class T, bool integer = IsInteger<T>::value>
struct LaneOf {
  using type = f32;  // small floats
  TILE static f32 in(T x) { return to_float(x); }
  TILE static T out(f32 x) { return FromFloat<T>::of(x); }
};
template <class T>
struct LaneOf<T, true> {
  using type = Int<T>;
  TILE static Int<T> in(T x) { return x; }
  TILE static T out(Int<T> x) { return x.value; }
};
template <class T>
struct SelfLane {
  using type = T;
  TILE static T in(T x) { return x; }
  TILE static T out(T x) { return x; }
};
template <>
struct LaneOf<f32> : SelfLane<f32> {};
template <>
struct LaneOf<f64> : SelfLane<f64> {};
template <>
struct LaneOf<bool> : SelfLane<bool> {};

// The type in which sums of T are accumulated.
template <class T>
struct SumOf {
  using type = T;
};
template <>
struct SumOf<bf16> {
  using type = f32;
};
template <>
struct SumOf<f16> {
  using type = f32;
};

}  // namespace tile
