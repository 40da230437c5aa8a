// astype and bitcast: conversions of values, or of bits, to another dtype.
#include "dsl/tile.h"
#include "prims/adjoints.h"
#include "prims/tangents.h"

namespace tile {
namespace {

std::vector<Type> infer_astype(const Op& op) { return {Type::tile(op.dtype("dtype"), op.type(0).shape)}; }

std::vector<Type> infer_bitcast(const Op& op) {
  DType from = op.type(0).dtype, to = op.dtype("dtype");
  if (info(from).bits != info(to).bits || from == DType::boolean || to == DType::boolean)
    fail(op, ErrorKind::type, "cannot reinterpret ", from, " as ", to,
         "; the widths must be equal and neither bool");
  return {Type::tile(to, op.type(0).shape)};
}

constexpr DTypeSet every_float = dtypes::floats | dtypes::restricted;
constexpr DTypeSet directed_results = dtypes::floats | DTypeSet(DType::tf32);

std::vector<Type> infer_directed(const Op& op) {
  DType from = op.type(0).dtype, to = op.dtype("dtype");
  if (!directed_results.has(to) || (to == DType::bf16 && op.is("astype_ra")))
    fail(op, ErrorKind::type, "cannot round ", from, " to ", to, " in a direction; astype rounds to nearest");
  return {Type::tile(to, op.type(0).shape)};
}

// Returns true for the pairs of dtypes that the language supports.
bool rounds(DType from, DType to, Rounding rounding) {
  if (rounding == Rounding::nearest || to == DType::f64 || to == DType::f32) return true;
  if (rounding == Rounding::zero) return directed_results.has(to);
  if (rounding == Rounding::away && to == DType::tf32) return true;
  return to == DType::f16 && (info(from).bits == 8 || info(from).bits == 16);
}

// Rounds like the targets: an integer is rounded once, and dtypes narrower than f32 are converted by way of
// f32.
double rounded_on_the_way(const Constant& x, DType result) {
  if (result == DType::f64) return x.as_double();
  return is_floating(x.dtype)    ? static_cast<float>(x.floating)
         : x.dtype == DType::u64 ? static_cast<float>(static_cast<uint64_t>(x.integer))
                                 : static_cast<float>(x.integer);
}

std::optional<Constant> fold_astype(std::span<const Constant> operands, DType result) {
  const Constant& x = operands[0];
  return is_floating(result)    ? Constant::of(result, rounded_on_the_way(x, result))
         : is_floating(x.dtype) ? Constant::of(result, x.floating)
                                : Constant::of(result, x.integer);
}

const Register astype_{
    {.name = "astype",
     .operands = 1,
     .traits = {.elementwise = true},
     .tangent = cast_tangent,
     .infer = infer_astype,
     .fold = fold_astype,
     .doc = "Converts: float to float rounds to nearest even, and f8e4m3, which has no "
            "infinity, saturates; float to integer truncates and saturates, and NaN becomes 0; "
            "integers wrap; the conversion to bool is != 0.\n"
            "operands: x, a tile of any dtype.\n"
            "{dtype}: of the result.\n"
            "result: dtype with x's shape. A cast to the same dtype returns the tile itself.\n"
            "Conversions to floats narrower than f32 go through f32: an integer or an f64 is "
            "rounded to f32, then to the narrow dtype. bool becomes 0 or 1. tf32 keeps 10 "
            "fraction bits.\n"
            "C++: Tile::astype.",
     .adjoint = adjoint_of_cast}};
// Constants are rounded to nearest, so these are not folded.
#define TILE_DIRECTED(mode, way)                                                                            \
  const Register astype_##mode{                                                                             \
      {.name = "astype_" #mode,                                                                             \
       .operands = 1,                                                                                       \
       .traits = {.elementwise = true},                                                                     \
       .tangent = cast_tangent,                                                                             \
       .dtypes = every_float,                                                                               \
       .infer = infer_directed,                                                                             \
       .doc =                                                                                               \
           "Converts float to float, rounded " way                                                          \
           "\noperands: x, a float tile.\n{dtype}: of the result: f64, f32 or f16; toward zero also "       \
           "bf16 and tf32, halves away also tf32.\nresult: dtype with x's shape.\nExcept toward zero, the " \
           "language accepts only 8-bit floats, f16 and bf16 into f16. It uses the plain `astype` if "      \
           "the conversion is "                                                                             \
           "exact.\nC++: Tile::astype.",                                                                    \
       .adjoint = adjoint_of_cast}};
TILE_DIRECTED(rz, "toward zero: a larger value becomes the largest number.")
TILE_DIRECTED(rm, "to minus infinity.")
TILE_DIRECTED(rp, "to plus infinity.")
TILE_DIRECTED(ra, "to nearest, halves away from zero.")
#undef TILE_DIRECTED
const Register bitcast_{
    {.name = "bitcast",
     .operands = 1,
     .traits = {.elementwise = true},
     .tangent = refuse_tangent,
     .infer = infer_bitcast,
     .doc = "The same bits as another dtype of equal width.\n"
            "operands: x, a tile.\n"
            "{dtype}: of the result, with the same width; neither dtype is bool. tf32 has 19 "
            "bits, as no other dtype has.\n"
            "result: dtype with x's shape.\n"
            "C++: Tile::bitcast.",
     .adjoint = adjoint_of_bits}};

}  // namespace

Tile Tile::astype(DType dtype, Location location) const {
  Value* x = value(location);
  return Tile(x->type.dtype == dtype ? x : emit(astype_, {x}, {{"dtype", dtype}}, location));
}
Tile Tile::astype(DType dtype, Rounding rounding, Location location) const {
  const DType from = value(location)->type.dtype;
  if (!is_floating(from) || !is_floating(dtype))
    fail(location, ErrorKind::type, "astype: a rounding mode is for float to float, not ", from, " to ",
         dtype, "; leave it out");
  if (!rounds(from, dtype, rounding))
    fail(location, ErrorKind::type, "astype: does not round ", from, " to ", dtype, " ", rounding,
         "; leave the mode out to round to nearest");
  const bool exact = dtype == DType::f64 || (dtype == DType::f32 && from != DType::f64);
  if (from == dtype || rounding == Rounding::nearest || exact) return astype(dtype, location);
  return Tile(emit(str("astype", info(rounding).suffix), {value(location)}, {{"dtype", dtype}}, location));
}
Tile Tile::bitcast(DType dtype, Location location) const {
  Value* x = value(location);
  return Tile(x->type.dtype == dtype ? x : emit(bitcast_, {x}, {{"dtype", dtype}}, location));
}

}  // namespace tile
