// Language functions of the elementwise primitives; one a row of the families, and their operators.
#pragma once
#include "dsl/tile.h"

namespace tile {

#define UNARY(name, ...) Tile name(const Operand& x);
#define UNARY_PREDICATE(name, ...) Tile name(const Operand& x);
#define BINARY(name, ...) Tile name(const Operand& x, const Operand& y);
#define PREDICATE(name, ...) Tile name(const Operand& x, const Operand& y);
#define TERNARY(name, ...) Tile name(const Operand& x, const Operand& y, const Operand& z);
#include "prims/elementwise/all.def"

// x where the condition holds, else y; the condition is bool, x and y of one dtype.
Tile where(const Operand& condition, const Operand& x, const Operand& y);

inline Tile min(const Operand& x, const Operand& y) { return minimum(x, y); }
inline Tile max(const Operand& x, const Operand& y) { return maximum(x, y); }

inline Tile operator-(const Operand& x) { return neg(x); }
Tile operator~(const Operand& x);  // of bool: the logical not
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
