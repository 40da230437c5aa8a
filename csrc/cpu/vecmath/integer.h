// Integer operations that never trap and are defined for all operands. x / 0 and x % 0 are 0; the most
// negative integer divided by -1 wraps to itself (remainder 0).
#pragma once
#include "cpu/vecmath/vec_math.h"

namespace tile::cpu::TILE_ISA {

// One lane. Division by -1 is a negation, because the division instruction would trap.
template <class T>
TILE_INLINE T divide_trunc(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  }
  return static_cast<T>(a / b);
}
// The result has the dividend's sign.
template <class T>
TILE_INLINE T remainder_trunc(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}
template <class T>
TILE_INLINE T divide_floor(T a, T b) {
  const T q = divide_trunc(a, b), r = remainder_trunc(a, b);
  return static_cast<T>(q - (r != 0 && (r < 0) != (b < 0)));
}
template <class T>
TILE_INLINE T divide_ceil(T a, T b) {
  const T q = divide_trunc(a, b), r = remainder_trunc(a, b);
  return static_cast<T>(q + (r != 0 && (r < 0) == (b < 0)));
}
// The result has the divisor's sign.
template <class T>
TILE_INLINE T remainder_floor(T a, T b) {
  const T r = remainder_trunc(a, b);
  return static_cast<T>(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}

#define TILE_LANEWISE(name)                                      \
  template <class T>                                             \
  TILE_INLINE Vec<T> name(Vec<T> a, Vec<T> b) {                  \
    static_assert(std::is_integral_v<T>);                        \
    return map_lanes([](T x, T y) { return name(x, y); }, a, b); \
  }
TILE_LANEWISE(divide_trunc)
TILE_LANEWISE(remainder_trunc)
TILE_LANEWISE(divide_floor)
TILE_LANEWISE(divide_ceil)
TILE_LANEWISE(remainder_floor)
#undef TILE_LANEWISE

// Counts that are negative or at least the width shift everything out: the result is zeros, or copies of the
// sign for >> of a signed type.
template <class T>
TILE_INLINE Vec<T> shift_left(Vec<T> x, Vec<T> count) {
  using U = Vec<std::make_unsigned_t<T>>;
  constexpr int width = sizeof(T) * 8;
  using E = typename U::Element;
  const U n = bit_cast<U>(count);
  const auto fits = n < U(E(width));
  const U shifted = bit_cast<U>(x).v << (n & U(E(width - 1))).v;
  return bit_cast<Vec<T>>(select(fits, shifted, U(E(0))));
}
template <class T>
TILE_INLINE Vec<T> shift_right(Vec<T> x, Vec<T> count) {
  using U = Vec<std::make_unsigned_t<T>>;
  constexpr int width = sizeof(T) * 8;
  using E = typename U::Element;
  const U n = bit_cast<U>(count);
  const auto fits = n < U(E(width));
  if constexpr (std::is_signed_v<T>) {
    const U clamped = select(fits, n, U(E(width - 1)));
    return x.v >> bit_cast<Vec<T>>(clamped).v;
  } else {
    const U shifted = bit_cast<U>(x).v >> (n & U(E(width - 1))).v;
    return select(fits, shifted, U(E(0)));
  }
}

// Shifts by a constant and fills with zeros for every type.
template <class T>
TILE_INLINE Vec<T> shift_right_zeros(Vec<T> x, int n) {
  return bit_cast<Vec<T>>(bit_cast<Vec<std::make_unsigned_t<T>>>(x) >> n);
}

// The corresponding floating-point division: floor(x/y), and the remainder with the divisor's sign.
template <FloatVector V>
TILE_INLINE V divide_floor(V a, V b) {
  return floor(a / b);
}

}  // namespace tile::cpu::TILE_ISA
