// Language functions of the elementwise primitives, one per row of the families, and operators.
#pragma once
#include <optional>

#include "dsl/tile.h"

namespace tile {

#define UNARY(name, ...) Tile name(const Operand& x);
#define UNARY_PREDICATE(name, ...) Tile name(const Operand& x);
#define BINARY(name, ...) Tile name(const Operand& x, const Operand& y);
#define PREDICATE(name, ...) Tile name(const Operand& x, const Operand& y);
#define TERNARY(name, ...) Tile name(const Operand& x, const Operand& y, const Operand& z);
#include "prims/elementwise/all.def"

// The rounding mode of float operations: `add(x, y, Rounding::zero)`, `mul(x, y, {Rounding::up,
// Subnormals::flush})`.
struct FloatMode {
  FloatMode(Rounding rounding, Subnormals subnormals = Subnormals::keep)  // NOLINT
      : rounding(rounding), subnormals(subnormals) {}
  FloatMode(Subnormals subnormals) : subnormals(subnormals) {}  // NOLINT

  std::optional<Rounding> rounding;  // none: as without a mode
  Subnormals subnormals;             // for f32 operands and results
};
Tile add(const Operand& x, const Operand& y, FloatMode mode);
Tile sub(const Operand& x, const Operand& y, FloatMode mode);
Tile mul(const Operand& x, const Operand& y, FloatMode mode);
Tile div(const Operand& x, const Operand& y, FloatMode mode);
Tile fma(const Operand& x, const Operand& y, const Operand& z, FloatMode mode);
Tile sqrt(const Operand& x, FloatMode mode);
// These have no rounding mode.
Tile rsqrt(const Operand& x, FloatMode mode);
Tile exp2(const Operand& x, FloatMode mode);
Tile minimum(const Operand& x, const Operand& y, FloatMode mode);
Tile maximum(const Operand& x, const Operand& y, FloatMode mode);
// Selects the variants that propagate NaN.
struct PropagateNan {};
inline constexpr PropagateNan propagate_nan;
Tile minimum(const Operand& x, const Operand& y, PropagateNan, FloatMode mode = Subnormals::keep);
Tile maximum(const Operand& x, const Operand& y, PropagateNan, FloatMode mode = Subnormals::keep);

// Returns x where the condition holds, else y; the condition is bool, x and y have one dtype.
Tile where(const Operand& condition, const Operand& x, const Operand& y);

inline Tile min(const Operand& x, const Operand& y) { return minimum(x, y); }
inline Tile max(const Operand& x, const Operand& y) { return maximum(x, y); }
inline Tile min(const Operand& x, const Operand& y, FloatMode mode) { return minimum(x, y, mode); }
inline Tile max(const Operand& x, const Operand& y, FloatMode mode) { return maximum(x, y, mode); }
inline Tile min(const Operand& x, const Operand& y, PropagateNan nan) { return minimum(x, y, nan); }
inline Tile max(const Operand& x, const Operand& y, PropagateNan nan) { return maximum(x, y, nan); }

inline Tile operator-(const Operand& x) { return neg(x); }
Tile operator~(const Operand& x);  // for bool: logical not
inline Tile operator!(const Operand& x) { return logical_not(x); }
inline Tile operator+(const Operand& x, const Operand& y) { return add(x, y); }
inline Tile operator-(const Operand& x, const Operand& y) { return sub(x, y); }
inline Tile operator*(const Operand& x, const Operand& y) { return mul(x, y); }
Tile operator/(const Operand& x, const Operand& y);  // floats: division; integers: rounded to minus infinity
inline Tile operator%(const Operand& x, const Operand& y) { return mod(x, y); }
inline Tile operator&(const Operand& x, const Operand& y) { return bitwise_and(x, y); }
inline Tile operator|(const Operand& x, const Operand& y) { return bitwise_or(x, y); }
inline Tile operator^(const Operand& x, const Operand& y) { return bitwise_xor(x, y); }
inline Tile operator<<(const Operand& x, const Operand& y) { return shift_left(x, y); }
inline Tile operator>>(const Operand& x, const Operand& y) { return shift_right(x, y); }
inline Tile operator==(const Operand& x, const Operand& y) { return eq(x, y); }
inline Tile operator!=(const Operand& x, const Operand& y) { return ne(x, y); }
inline Tile operator<(const Operand& x, const Operand& y) { return lt(x, y); }
inline Tile operator<=(const Operand& x, const Operand& y) { return le(x, y); }
inline Tile operator>(const Operand& x, const Operand& y) { return gt(x, y); }
inline Tile operator>=(const Operand& x, const Operand& y) { return ge(x, y); }

}  // namespace tile
