// Implements Tile variables, operands, literals and broadcasting.
#include "dsl/tile.h"

#include "dsl/range.h"
#include "dsl/tracer.h"

namespace tile {

Tile::Tile(Location location) {
  Tracer* tracer = Tracer::current_or_null();
  trace_ = tracer ? tracer->serial() : 0;
  variable_ = tracer ? tracer->new_variable(nullptr, location) : 0;
}
Tile::Tile(Value* value) {
  Tracer& tracer = Tracer::current(value->location);
  trace_ = tracer.serial();
  variable_ = tracer.new_variable(value, value->location);
}
Tile::Tile(const Tile& other, Location location) : Tile(location) {
  Tracer* tracer = Tracer::current_or_null();
  if (!tracer || tracer->serial() != other.trace_) {  // a later read reports which trace is wrong
    variable_ = other.variable_, trace_ = other.trace_;
    return;
  }
  tracer->assign(variable_, trace_, tracer->touch(other.variable_), location);
}
Tile::Tile(int literal, Location location) : Tile(Operand(literal, location).any()) {}
Tile::Tile(bool literal, Location location) : Tile(Operand(literal, location).any()) {}
Tile::Tile(double literal, Location location) : Tile(Operand(literal, location).any()) {}

Tile& Tile::operator=(const Tile& other) {
  Value* value = other.value();
  Tracer::current(value->location).assign(variable_, trace_, value, value->location);
  return *this;
}

Value* Tile::value(Location location) const {
  return Tracer::current(location).read(variable_, trace_, location);
}

int64_t Tile::shape(int axis) const {
  const Shape& extents = shape();
  int rank = static_cast<int>(extents.size());
  if (axis < -rank || axis >= rank)
    fail(value()->location, ErrorKind::value, "shape: axis ", axis, " is out of range for ", type());
  return extents[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
}

Operand::Operand(const Tile& tile, Location location) : value(tile.value(location)), location(location) {}

std::optional<DType> Operand::dtype() const {
  if (value) return value->type.dtype;
  return std::nullopt;
}

Value* Operand::as(DType dtype, const char* operation) const {
  if (value) {
    if (value->type.dtype != dtype)
      fail(location, ErrorKind::type, operation, ": operands are ", dtype, " and ", value->type.dtype,
           "; cast one with astype()");
    return value;
  }
  bool fits = is_floating(dtype)        ? literal->dtype != DType::boolean
              : dtype == DType::boolean ? literal->dtype == DType::boolean
                                        : literal->dtype == DType::i64;
  if (!fits)
    fail(location, ErrorKind::type, operation, ": the literal ",
         literal->dtype == DType::boolean ? std::string(literal->integer ? "true" : "false")
                                          : str(literal->attribute()),
         " does not fit a tile of ", dtype, "; cast the tile with astype()");
  Constant constant =
      is_floating(dtype) ? Constant::of(dtype, literal->as_double()) : Constant::of(dtype, literal->integer);
  if (is_integer(dtype) && constant.integer != literal->integer)
    fail(location, ErrorKind::value, operation, ": the literal ", literal->integer, " is out of range of ",
         dtype, "; cast the tile to a wider dtype");
  return emit("constant", {}, {{"dtype", dtype}, {"value", constant.attribute()}}, location);
}

Value* Operand::any() const {
  if (value) return value;
  DType dtype = literal->dtype == DType::boolean                             ? DType::boolean
                : literal->dtype == DType::f64                               ? DType::f32
                : literal->integer == static_cast<int32_t>(literal->integer) ? DType::i32
                                                                             : DType::i64;
  return as(dtype, "constant");
}

Shape broadcast_shape(const char* operation, const Type& x, const Type& y, const Location& location) {
  size_t rank = std::max(x.shape.size(), y.shape.size());
  Shape out(rank);
  for (size_t i = 0; i < rank; ++i) {
    auto extent = [&](const Shape& shape) {
      size_t missing = rank - shape.size();
      return i < missing ? 1 : shape[i - missing];
    };
    int64_t a = extent(x.shape), b = extent(y.shape);
    if (a != b && a != 1 && b != 1)
      fail(location, ErrorKind::value, operation, ": ", x, " and ", y,
           " do not broadcast; extents must be equal or 1, counted from the last axis");
    out[i] = a == 1 ? b : a;
  }
  return out;
}

Value* broadcast_to(const char* operation, Value* value, const Shape& shape, const Location& location) {
  if (value->type.shape == shape) return value;
  Shape joint = broadcast_shape(operation, value->type, Type::tile(value->type.dtype, shape), location);
  if (joint != shape)
    fail(location, ErrorKind::value, operation, ": ", value->type, " does not broadcast to ", shape,
         "; extents must be equal or 1, counted from the last axis");
  if (!value->type.shape.empty() && value->type.shape.size() != shape.size()) {
    Shape padded(shape.size() - value->type.shape.size(), 1);
    padded.insert(padded.end(), value->type.shape.begin(), value->type.shape.end());
    value = emit("reshape", {value}, {{"shape", padded}}, location);
    if (padded == shape) return value;
  }
  return emit("broadcast", {value}, {{"shape", shape}}, location);
}

void broadcast_together(const char* operation, std::vector<Value*>& values, const Location& location) {
  Shape shape;
  for (const Value* value : values)
    shape = broadcast_shape(operation, Type::tile(values[0]->type.dtype, shape), value->type, location);
  for (Value*& value : values) value = broadcast_to(operation, value, shape, location);
}

Pair unify(const char* operation, const Operand& x, const Operand& y) {
  if (!x.value && !y.value) {  // two literals become the wider of both scalar types
    Value* b = y.any();
    Value* a = x.any();
    if (a->type.dtype == b->type.dtype) return {a, b};
    DType dtype = is_floating(a->type.dtype) ? a->type.dtype : b->type.dtype;
    return {x.as(dtype, operation), y.as(dtype, operation)};
  }
  const Location& at = x.location;
  if (x.value && y.value && x.value->type.dtype != y.value->type.dtype)
    fail(at, ErrorKind::type, operation, ": operands are ", x.value->type, " and ", y.value->type,
         "; cast one with astype()");
  DType dtype = x.value ? x.value->type.dtype : y.value->type.dtype;
  Value *a = x.as(dtype, operation), *b = y.as(dtype, operation);
  Shape shape = broadcast_shape(operation, a->type, b->type, at);
  return {broadcast_to(operation, a, shape, at), broadcast_to(operation, b, shape, at)};
}

Value* emit(const Primitive& primitive, std::vector<Value*> operands, Attributes attributes,
            const Location& location) {
  return Tracer::current(location).emit(primitive, std::move(operands), std::move(attributes), location);
}

}  // namespace tile
