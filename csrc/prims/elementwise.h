// Language functions of the elementwise primitives; one a row of elementwise.def, and their operators.
#pragma once
#include "dsl/tile.h"

namespace tile {

#define UNARY(name, ...) Tile name(Operand x);
#define UNARY_PREDICATE(name, ...) Tile name(Operand x);
#define BINARY(name, ...) Tile name(Operand x, Operand y);
#define PREDICATE(name, ...) Tile name(Operand x, Operand y);
#define TERNARY(name, ...) Tile name(Operand x, Operand y, Operand z);
#include "prims/elementwise.def"
#undef UNARY
#undef UNARY_PREDICATE
#undef BINARY
#undef PREDICATE
#undef TERNARY

// x where the condition holds, else y; the condition is bool, x and y of one dtype.
Tile where(Operand condition, Operand x, Operand y);

inline Tile min(Operand x, Operand y) { return minimum(x, y); }
inline Tile max(Operand x, Operand y) { return maximum(x, y); }

inline Tile operator-(Operand x) { return neg(x); }
Tile operator~(Operand x);  // of bool: the logical not
inline Tile operator!(Operand x) { return logical_not(x); }
inline Tile operator+(Operand x, Operand y) { return add(x, y); }
inline Tile operator-(Operand x, Operand y) { return sub(x, y); }
inline Tile operator*(Operand x, Operand y) { return mul(x, y); }
Tile operator/(Operand x, Operand y);  // floats: division; integers: rounded to minus infinity
inline Tile operator%(Operand x, Operand y) { return mod(x, y); }
inline Tile operator&(Operand x, Operand y) { return bitwise_and(x, y); }
inline Tile operator|(Operand x, Operand y) { return bitwise_or(x, y); }
inline Tile operator^(Operand x, Operand y) { return bitwise_xor(x, y); }
inline Tile operator<<(Operand x, Operand y) { return shift_left(x, y); }
inline Tile operator>>(Operand x, Operand y) { return shift_right(x, y); }
inline Tile operator==(Operand x, Operand y) { return eq(x, y); }
inline Tile operator!=(Operand x, Operand y) { return ne(x, y); }
inline Tile operator<(Operand x, Operand y) { return lt(x, y); }
inline Tile operator<=(Operand x, Operand y) { return le(x, y); }
inline Tile operator>(Operand x, Operand y) { return gt(x, y); }
inline Tile operator>=(Operand x, Operand y) { return ge(x, y); }

}  // namespace tile
