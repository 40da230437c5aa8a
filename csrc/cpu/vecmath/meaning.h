// Defines the names in the expressions of prims/elementwise/*.def for Vec, unless vec_math.h and functions.h
// define them.
#pragma once
#include "cpu/vecmath/directed.h"
#include "cpu/vecmath/functions.h"
#include "cpu/vecmath/simd.h"

namespace tile::cpu::TILE_ISA::meaning {

// Objects instead of functions: they hide the hardware's min and max, which argument-dependent lookup would
// find as well.
struct Min {
  template <class V>
  TILE_INLINE V operator()(V x, V y) const {
    return min_number(x, y);
  }
};
struct Max {
  template <class V>
  TILE_INLINE V operator()(V x, V y) const {
    return max_number(x, y);
  }
};
struct Fma {
  template <class V>
  TILE_INLINE V operator()(V x, V y, V z) const {
    return fma_once(x, y, z);
  }
};
inline constexpr Min min;
inline constexpr Max max;
inline constexpr Fma fma;

template <class V>
TILE_INLINE V bitwise_not(V x) {
  return ~x;
}
template <class V>
TILE_INLINE typename V::MaskType isinf(V x) {
  return clear_sign(x) == V(static_cast<typename V::Element>(__builtin_inf()));
}
template <class V>
TILE_INLINE V sign(V x) {
  using T = typename V::Element;
  const V zero(T(0)), one(T(1));
  if constexpr (std::is_unsigned_v<T>)
    return select(x == zero, zero, one);
  else  // -0 and NaN are kept
    return select(x > zero, one, select(x < zero, V(T(-1)), x));
}
template <class V>
TILE_INLINE V flush_subnormal(V x) {
  return select(clear_sign(x) < V(0x1p-126f), sign_bit(x), x);
}

TILE_INLINE float remainder(float x, float y) { return __builtin_fmodf(x, y); }
TILE_INLINE double remainder(double x, double y) { return __builtin_fmod(x, y); }

// floor(x / y) of the exact quotient; dividing first would sometimes round up to the next integer.
template <class T>
TILE_INLINE T floor_quotient(T x, T y) {
  if (y == 0) return x / y;
  const T rest = remainder(x, y);
  T quotient = (x - rest) / y;
  if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;
  if (quotient == 0) return __builtin_copysign(T(0), x / y);
  const T whole = static_cast<T>(__builtin_floor(quotient));
  return quotient - whole > T(0.5) ? whole + 1 : whole;
}
template <class T>
TILE_INLINE T floor_remainder(T x, T y) {
  const T rest = remainder(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
template <class V>
TILE_INLINE V floordiv(V x, V y) {
  using T = typename V::Element;
  if constexpr (std::is_integral_v<T>)
    return divide_floor(x, y);
  else
    return map_lanes([](T a, T b) { return floor_quotient(a, b); }, x, y);
}
template <class V>
TILE_INLINE V mod(V x, V y) {
  using T = typename V::Element;
  if constexpr (std::is_integral_v<T>)
    return remainder_floor(x, y);
  else
    return map_lanes([](T a, T b) { return floor_remainder(a, b); }, x, y);
}
template <class V>
TILE_INLINE V cdiv(V x, V y) {
  return divide_ceil(x, y);
}

// A bool operand has the same lane as u8 but a different meaning.
struct to_bool_row {
  template <class V>
  TILE_INLINE auto operator()(V x) const {
    return x != V(typename V::Element(0));
  }
};

}  // namespace tile::cpu::TILE_ISA::meaning
