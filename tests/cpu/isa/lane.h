// Lane<T>: the operations of Vec<T> on one value. Instantiating the vector functions with it shows that they
// use no other operations, as the recording type of the assembler requires.
#pragma once
#include "cpu/vecmath/convert.h"

namespace tile::cpu::TILE_ISA::lane {

template <class T>
struct LaneMask {
  bool v;
  friend LaneMask operator&(LaneMask a, LaneMask b) { return {a.v && b.v}; }
  friend LaneMask operator|(LaneMask a, LaneMask b) { return {a.v || b.v}; }
  friend LaneMask operator~(LaneMask a) { return {!a.v}; }
};

template <class T>
struct Lane {
  using Element = T;
  using MaskType = LaneMask<T>;
  using Bits = Lane<IntOfSize<sizeof(T)>>;
  T v;
  Lane() = default;
  explicit Lane(T value) : v(value) {}
  friend Lane operator+(Lane a, Lane b) {
    return wrap(a, b, [](auto x, auto y) { return x + y; });
  }
  friend Lane operator-(Lane a, Lane b) {
    return wrap(a, b, [](auto x, auto y) { return x - y; });
  }
  friend Lane operator*(Lane a, Lane b) { return Lane(a.v * b.v); }
  friend Lane operator/(Lane a, Lane b) { return Lane(a.v / b.v); }
  friend Lane operator-(Lane a) { return Lane(-a.v); }
  friend Lane operator&(Lane a, Lane b) { return Lane(a.v & b.v); }
  friend Lane operator|(Lane a, Lane b) { return Lane(a.v | b.v); }
  friend Lane operator^(Lane a, Lane b) { return Lane(a.v ^ b.v); }
  friend Lane operator~(Lane a) { return Lane(~a.v); }
  friend Lane operator<<(Lane a, int n) {
    return Lane(static_cast<T>(static_cast<std::make_unsigned_t<T>>(a.v) << n));
  }
  friend Lane operator>>(Lane a, int n) { return Lane(a.v >> n); }
  friend MaskType operator<(Lane a, Lane b) { return {a.v < b.v}; }
  friend MaskType operator<=(Lane a, Lane b) { return {a.v <= b.v}; }
  friend MaskType operator>(Lane a, Lane b) { return {a.v > b.v}; }
  friend MaskType operator>=(Lane a, Lane b) { return {a.v >= b.v}; }
  friend MaskType operator==(Lane a, Lane b) { return {a.v == b.v}; }
  friend MaskType operator!=(Lane a, Lane b) { return {a.v != b.v}; }

 private:
  template <class F>
  static Lane wrap(Lane a, Lane b, F f) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return Lane(static_cast<T>(f(static_cast<U>(a.v), static_cast<U>(b.v))));
    } else {
      return Lane(f(a.v, b.v));
    }
  }
};

// More specialised than the vector layer's bit_cast, which copies bytes.
template <class To, class From>
static To bit_cast(Lane<From> x) {
  static_assert(sizeof(typename To::Element) == sizeof(From));
  To r;
  __builtin_memcpy(&r.v, &x.v, sizeof r.v);
  return r;
}
template <class To, class From>
static LaneMask<To> mask_cast(LaneMask<From> m) {
  return {m.v};
}
template <class T>
static Lane<T> select(LaneMask<T> m, Lane<T> yes, Lane<T> no) {
  return m.v ? yes : no;
}
template <class T>
static Lane<T> fma(Lane<T> a, Lane<T> b, Lane<T> c) {
  if constexpr (!has_fma) return a * b + c;
  if constexpr (sizeof(T) == 4) return Lane<T>(__builtin_fmaf(a.v, b.v, c.v));
  if constexpr (sizeof(T) == 8) return Lane<T>(__builtin_fma(a.v, b.v, c.v));
}
template <class T>
static Lane<T> fnma(Lane<T> a, Lane<T> b, Lane<T> c) {
  if constexpr (!has_fma) return c - a * b;
  return fma(-a, b, c);
}
template <class T>
static Lane<T> min(Lane<T> a, Lane<T> b) {
  return a.v < b.v ? a : b;
}
template <class T>
static Lane<T> max(Lane<T> a, Lane<T> b) {
  return a.v > b.v ? a : b;
}
template <class T>
static LaneMask<T> is_nan(Lane<T> x) {
  return x != x;
}
template <class T>
static Lane<T> sqrt(Lane<T> x) {
  return Lane<T>(static_cast<T>(__builtin_sqrt(x.v)));
}
template <class T>
static Lane<T> trunc(Lane<T> x) {
  return Lane<T>(static_cast<T>(__builtin_trunc(x.v)));
}
#if TILE_VECTOR_BYTES == 64
static inline Lane<float> lesser(Lane<float> a, Lane<float> b) {
  return Lane<float>(a.v == b.v && __builtin_signbit(a.v) ? a.v : __builtin_fminf(a.v, b.v));
}
static inline Lane<float> greater(Lane<float> a, Lane<float> b) {
  return Lane<float>(a.v == b.v && !__builtin_signbit(a.v) ? a.v : __builtin_fmaxf(a.v, b.v));
}
static inline Lane<float> quiet(Lane<float> x) { return x.v == x.v ? x : Lane<float>(__builtin_nanf("")); }
static inline Lane<float> limited(Lane<float> x, Lane<float> limit) {
  if (x.v != x.v) return limit;
  return __builtin_fabsf(x.v) < limit.v ? x : Lane<float>(__builtin_copysignf(limit.v, x.v));
}
static inline Lane<float> scale(Lane<float> x, Lane<float> n) {
  constexpr float most = 1000;  // larger exponents give the same result
  if (n.v != n.v) return n;
  const float held = n.v > most ? most : n.v < -most ? -most : __builtin_floorf(n.v);
  return Lane<float>(__builtin_ldexpf(x.v, static_cast<int>(held)));
}
template <int shift>
static Lane<float> power_of_sixteenths(Lane<int32_t> bits) {
  return Lane<float>(__builtin_ldexpf(fitted::sixteenths[bits.v & 15], shift));
}
#endif
static inline Lane<float> to_float(Lane<int32_t> x) { return Lane<float>(static_cast<float>(x.v)); }
template <class T>
static Lane<T> shift_right_zeros(Lane<T> x, int n) {
  return Lane<T>(static_cast<T>(static_cast<std::make_unsigned_t<T>>(x.v) >> n));
}
static inline Pair<Lane<double>> widen(Lane<float> x) { return {Lane<double>(x.v), Lane<double>(x.v)}; }
static inline Lane<float> narrow(Pair<Lane<double>> x) { return Lane<float>(static_cast<float>(x.low.v)); }
template <class F, class T>
static Lane<T> map_lanes(F f, Lane<T> x) {
  return Lane<T>(f(x.v));
}
template <class F, class T>
static Lane<T> repair_lanes(Lane<T> result, LaneMask<T> where, F f, Lane<T> x) {
  return where.v ? Lane<T>(f(x.v)) : result;
}

}  // namespace tile::cpu::TILE_ISA::lane
