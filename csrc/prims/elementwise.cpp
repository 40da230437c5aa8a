// Registers the rows of prims/elementwise: type rules and language functions.
#include "prims/elementwise.h"

#include <string>

#include "prims/adjoints.h"
#include "prims/fold.h"
#include "prims/tangents.h"

namespace tile {
namespace {

void check_operands(const Op& op) {
  for (size_t i = 1; i < op.operands.size(); ++i)
    if (op.type(i) != op.type(0))
      fail(op, op.type(i).dtype == op.type(0).dtype ? ErrorKind::value : ErrorKind::type, "operands are ",
           op.type(0), " and ", op.type(i), "; they must be equal");
}
std::vector<Type> infer_same(const Op& op) {
  check_operands(op);
  return {op.type(0)};
}
std::vector<Type> infer_bool(const Op& op) {
  check_operands(op);
  return {Type::tile(DType::boolean, op.type(0).shape)};
}
std::vector<Type> infer_where(const Op& op) {
  if (op.type(0).dtype != DType::boolean || op.type(0).shape != op.type(1).shape || op.type(1) != op.type(2))
    fail(op, ErrorKind::type, "takes bool and two tiles of one type, got ", op.type(0), ", ", op.type(1),
         " and ", op.type(2));
  return {op.type(1)};
}

constexpr bool swaps(std::string_view traits) { return traits.ends_with("SWAPS"); }

namespace rows {
#define ROW(NAME, COUNT, DTYPES, INFER, ADJOINT, TRAITS, REF, LOW, HIGH, ULP, DOC)                \
  const Register NAME##_{{.name = #NAME,                                                          \
                          .operands = COUNT,                                                      \
                          .traits = {.elementwise = true, .commutative = swaps(#TRAITS)},         \
                          .tangent = elementwise_tangent,                                         \
                          .dtypes = dtypes::DTYPES,                                               \
                          .infer = INFER,                                                         \
                          .fold = fold_of(#NAME),                                                 \
                          .doc = DOC,                                                             \
                          .test = {.reference = REF, .low = LOW, .high = HIGH, .tolerance = ULP}, \
                          .adjoint = ADJOINT}};
#define UNARY(N, D, E, T, R, L, H, U, DOC) \
  ROW(N, 1, D, infer_same, adjoint_of_elementwise, T, R, L, H, U, DOC)
#define UNARY_PREDICATE(N, D, E, T, R, L, H, U, DOC) ROW(N, 1, D, infer_bool, nullptr, T, R, L, H, U, DOC)
#define BINARY(N, D, E, T, R, L, H, U, DOC) \
  ROW(N, 2, D, infer_same, adjoint_of_elementwise, T, R, L, H, U, DOC)
#define PREDICATE(N, D, E, T, R, L, H, U, DOC) ROW(N, 2, D, infer_bool, nullptr, T, R, L, H, U, DOC)
#define TERNARY(N, D, E, T, R, L, H, U, DOC) \
  ROW(N, 3, D, infer_same, adjoint_of_elementwise, T, R, L, H, U, DOC)
#include "prims/elementwise/all.def"
}  // namespace rows

const Register where_{{.name = "where",
                       .operands = 3,
                       .traits = {.elementwise = true},
                       .tangent = where_tangent,
                       .infer = infer_where,
                       .doc = "Selects the second operand where the first is true, else the third.\n"
                              "operands: condition, bool; x and y: tiles of one dtype; all of one shape.\n"
                              "result: the type of x.\n"
                              "Both x and y are computed for all elements; a NaN that is not selected has no "
                              "effect.\n"
                              "C++: where.",
                       .test = {.reference = "torch.where(x, y, z)", .tolerance = 0},
                       .adjoint = adjoint_of_where}};

Tile unary(const Primitive& primitive, const char* name, const Operand& x) {
  (void)name;
  return Tile(emit(primitive, {x.any()}, {}, x.location));
}
Tile binary(const Primitive& primitive, const char* name, const Operand& x, const Operand& y) {
  Pair pair = unify(name, x, y);
  return Tile(emit(primitive, {pair.x, pair.y}, {}, x.location));
}
Tile ternary(const Primitive& primitive, const char* name, const Operand& x, const Operand& y,
             const Operand& z) {
  Pair xy = unify(name, x, y);
  Pair xz = unify(name, Operand(xy.x, x.location), z);
  Value* b = broadcast_to(name, xy.y, xz.x->type.shape, x.location);
  return Tile(emit(primitive, {xz.x, b, xz.y}, {}, x.location));
}

}  // namespace

#define UNARY(name, ...) \
  Tile name(const Operand& x) { return unary(rows::name##_, #name, x); }
#define UNARY_PREDICATE(name, ...) \
  Tile name(const Operand& x) { return unary(rows::name##_, #name, x); }
#define BINARY(name, ...) \
  Tile name(const Operand& x, const Operand& y) { return binary(rows::name##_, #name, x, y); }
#define PREDICATE(name, ...) \
  Tile name(const Operand& x, const Operand& y) { return binary(rows::name##_, #name, x, y); }
#define TERNARY(name, ...)                                          \
  Tile name(const Operand& x, const Operand& y, const Operand& z) { \
    return ternary(rows::name##_, #name, x, y, z);                  \
  }
#include "prims/elementwise/all.def"

Tile where(const Operand& condition, const Operand& x, const Operand& y) {
  Pair pair = unify("where", x, y);
  Value* mask = condition.as(DType::boolean, "where");
  Shape shape = broadcast_shape("where", mask->type, pair.x->type, condition.location);
  auto fit = [&](Value* value) { return broadcast_to("where", value, shape, condition.location); };
  return Tile(emit(where_, {fit(mask), fit(pair.x), fit(pair.y)}, {}, condition.location));
}

Tile operator~(const Operand& x) { return x.dtype() == DType::boolean ? logical_not(x) : bitwise_not(x); }

Tile operator/(const Operand& x, const Operand& y) {
  std::optional<DType> dtype = x.dtype() ? x.dtype() : y.dtype();
  return dtype && is_integer(*dtype) ? floordiv(x, y) : div(x, y);
}

Tile& Tile::operator+=(Operand other) {
  return *this = add(Operand(value(other.location), other.location), other);
}
Tile& Tile::operator-=(Operand other) {
  return *this = sub(Operand(value(other.location), other.location), other);
}
Tile& Tile::operator*=(Operand other) {
  return *this = mul(Operand(value(other.location), other.location), other);
}
Tile& Tile::operator/=(Operand other) {
  return *this = Operand(value(other.location), other.location) / other;
}

}  // namespace tile
