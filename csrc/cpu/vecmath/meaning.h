// Defines the names in the expressions of prims/elementwise/*.def for Vec, unless vec_math.h and functions.h
// define them.
#pragma once
#include "cpu/vecmath/directed.h"
#include "cpu/vecmath/functions.h"
#include "cpu/vecmath/remainder.h"
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

// Returns a mask of lanes whose quotient, rounded toward zero, is above the rounded down one.
template <class V>
TILE_INLINE typename V::MaskType rounds_down(V rest, V y) {
  const V zero(typename V::Element(0));
  return (rest != zero) & ((rest < zero) ^ (y < zero));
}
// floor(x / y) of the exact quotient; dividing first would sometimes round up to the next integer.
template <class V>
TILE_INLINE V floordiv(V x, V y) {
  using T = typename V::Element;
  if constexpr (std::is_integral_v<T>) {
    return divide_floor(x, y);
  } else {
    const V zero(T(0)), one(T(1)), ratio = x / y, rest = remainder(x, y);
    V quotient = (x - rest) / y;
    quotient = select(rounds_down(rest, y), quotient - one, quotient);
    const V low = floor(quotient), whole = select(quotient - low > V(T(0.5)), low + one, low);
    return select(y == zero, ratio, select(quotient == zero, with_sign(zero, ratio), whole));
  }
}
template <class V>
TILE_INLINE V mod(V x, V y) {
  using T = typename V::Element;
  if constexpr (std::is_integral_v<T>) {
    return remainder_floor(x, y);
  } else {
    const V rest = remainder(x, y);
    return select(rounds_down(rest, y), rest + y, rest);
  }
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
