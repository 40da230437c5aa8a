// Arithmetic of floats with a mode: directed rounding, flushed subnormals.
#include <string>
#include <vector>

#include "prims/elementwise.h"

namespace tile {
namespace {

void check(const char* name, DType dtype, const FloatMode& mode, const Location& at) {
  if (mode.rounding && !find_primitive(str(name, info(Rounding::zero).suffix)))
    fail(at, ErrorKind::value, name,
         ": takes no rounding mode; add, sub, mul, div, fma, sqrt and astype() take one");
  if (mode.rounding == Rounding::away)
    fail(at, ErrorKind::value, name,
         ": does not round halves away, which only astype() does; take nearest, zero, down or up");
  if (mode.rounding && !is_floating(dtype))
    fail(at, ErrorKind::type, name, ": a rounding mode is for floating dtypes, not ", dtype,
         "; leave it out, or cast with astype()");
  if (mode.subnormals == Subnormals::flush && dtype != DType::f32)
    fail(at, ErrorKind::type, name, ": subnormals are flushed in f32, not in ", dtype,
         "; cast with astype()");
}

Value* flushed(Value* x, const FloatMode& mode, const Location& at) {
  return mode.subnormals == Subnormals::flush ? emit("flush_subnormal", {x}, {}, at) : x;
}

// Computes 16-bit floats in f32, rounded in the same direction as the cast back, which gives the same result
// as rounding once.
Tile compute(const char* name, std::vector<Value*> operands, const FloatMode& mode, const Location& at) {
  const DType dtype = operands[0]->type.dtype;
  check(name, dtype, mode, at);
  const Rounding rounding = mode.rounding.value_or(Rounding::nearest);
  const bool narrow = rounding != Rounding::nearest && (dtype == DType::f16 || dtype == DType::bf16);
  for (Value*& x : operands) {
    if (narrow) x = emit("astype", {x}, {{"dtype", DType::f32}}, at);
    x = flushed(x, mode, at);
  }
  const bool restricted = dtypes::restricted.has(dtype);  // which the operation itself rejects
  const std::string suffix(restricted ? "" : info(rounding).suffix);
  Value* result = flushed(emit(name + suffix, operands, {}, at), mode, at);
  return Tile(narrow ? emit("astype" + suffix, {result}, {{"dtype", dtype}}, at) : result);
}
Tile unary(const char* name, const Operand& x, const FloatMode& mode) {
  return compute(name, {x.any()}, mode, x.location);
}
Tile binary(const char* name, const Operand& x, const Operand& y, const FloatMode& mode) {
  const Pair pair = unify(name, x, y);
  return compute(name, {pair.x, pair.y}, mode, x.location);
}

}  // namespace

Tile add(const Operand& x, const Operand& y, FloatMode mode) { return binary("add", x, y, mode); }
Tile sub(const Operand& x, const Operand& y, FloatMode mode) { return binary("sub", x, y, mode); }
Tile mul(const Operand& x, const Operand& y, FloatMode mode) { return binary("mul", x, y, mode); }
Tile div(const Operand& x, const Operand& y, FloatMode mode) { return binary("div", x, y, mode); }
Tile fma(const Operand& x, const Operand& y, const Operand& z, FloatMode mode) {
  const Pair xy = unify("fma", x, y), xz = unify("fma", Operand(xy.x, x.location), z);
  Value* b = broadcast_to("fma", xy.y, xz.x->type.shape, x.location);
  return compute("fma", {xz.x, b, xz.y}, mode, x.location);
}
Tile sqrt(const Operand& x, FloatMode mode) { return unary("sqrt", x, mode); }
Tile rsqrt(const Operand& x, FloatMode mode) { return unary("rsqrt", x, mode); }
Tile exp2(const Operand& x, FloatMode mode) { return unary("exp2", x, mode); }
Tile minimum(const Operand& x, const Operand& y, FloatMode mode) { return binary("minimum", x, y, mode); }
Tile maximum(const Operand& x, const Operand& y, FloatMode mode) { return binary("maximum", x, y, mode); }
Tile minimum(const Operand& x, const Operand& y, PropagateNan, FloatMode mode) {
  return binary("minimum_nan", x, y, mode);
}
Tile maximum(const Operand& x, const Operand& y, PropagateNan, FloatMode mode) {
  return binary("maximum_nan", x, y, mode);
}

}  // namespace tile
