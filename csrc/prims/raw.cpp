// load_offset and store_offset: accesses without bounds and strides.
#include "prims/raw.h"

#include "dsl/tracer.h"
#include "prims/elements.h"
#include "prims/padding.h"
#include "prims/tangents.h"

namespace tile {
namespace {

// Operands: array, [value], offset, [mask].
const Shape& check_offset(const Op& op, size_t offset) {
  if (!op.type(0).is_array() || op.operands.size() < offset + 1 || op.operands.size() > offset + 2)
    fail(op, ErrorKind::value, "takes an array, an offset and optionally a mask");
  if (!is_integer(op.type(offset).dtype))
    fail(op, ErrorKind::type, "the offset is ", op.type(offset), "; it must be an integer tile");
  const Shape& shape = op.type(offset).shape;
  if (op.operands.size() == offset + 2 && op.type(offset + 1) != Type::tile(DType::boolean, shape))
    fail(op, ErrorKind::type, "the mask is ", op.type(offset + 1), "; it must be bool of shape ", shape);
  return shape;
}
std::vector<Type> infer_load_offset(const Op& op) {
  const Shape& shape = check_offset(op, 1);
  require_pad(op);
  return {Type::tile(op.type(0).dtype, shape)};
}
std::vector<Type> infer_store_offset(const Op& op) {
  const Shape& shape = check_offset(op, 2);
  if (op.type(1) != Type::tile(op.type(0).dtype, shape))
    fail(op, ErrorKind::type, "cannot write ", op.type(1), " to offsets ", shape, " of ", op.type(0));
  return {};
}

const Register load_offset_{
    {.name = "load_offset",
     .traits = {.reads = true, .picks = true},
     .tangent = linear_tangent,
     .infer = infer_load_offset,
     .doc = "Loads elements at offsets from an array's first element, ignoring bounds and "
            "strides; masked-out elements are `pad`.\n"
            "operands: array, an integer tile of offsets, and optionally a bool mask of its "
            "shape.\n"
            "{pad}: the value of elements that are not read; 0 for integers and bool.\n"
            "result: a tile of the array's dtype and the offsets' shape.\n"
            "An offset outside of the array's memory is undefined behaviour.\n"
            "C++: load_offset."}};
const Register store_offset_{
    {.name = "store_offset",
     .traits = {.writes = true, .picks = true},
     .tangent = store_tangent,
     .infer = infer_store_offset,
     .doc = "Writes elements at offsets from an array's first element, ignoring bounds and "
            "strides; masked-out elements are dropped.\n"
            "operands: array, value of the array's dtype, an integer tile of offsets, and "
            "optionally a bool mask; all of one shape.\n"
            "An offset outside of the array's memory is undefined behaviour. With two equal "
            "offsets either value is stored.\n"
            "C++: store_offset."}};

Tile load(Array array, const Operand& offset, Value* mask, double pad, const Location& at) {
  Tracer::current(at).check_visible(array.value(), "this Array view", at);
  std::vector<Value*> operands{offset.any()};
  if (mask) operands.push_back(mask);
  broadcast_together("load_offset", operands, at);
  operands.insert(operands.begin(), array.value());
  return Tile(emit(load_offset_, std::move(operands),
                   {{"pad", padding_of("load_offset", array.dtype(), pad, at)}}, at));
}

void store(Array array, const Operand& offset, const Operand& value, Value* mask) {
  const Location& at = value.location;
  Tracer::current(at).check_visible(array.value(), "this Array view", at);
  Value* tile = written_value("store_offset", array, value);
  std::vector<Value*> operands{tile, offset.any()};
  if (mask) operands.push_back(mask);
  broadcast_together("store_offset", operands, at);
  operands.insert(operands.begin(), array.value());
  emit(store_offset_, std::move(operands), {}, at);
}

}  // namespace

Tile load_offset(Array array, const Operand& offset, double pad, Location location) {
  return load(array, offset, nullptr, pad, location);
}
Tile load_offset(Array array, const Operand& offset, const Tile& mask, double pad, Location location) {
  return load(array, offset, mask.value(location), pad, location);
}
void store_offset(Array array, const Operand& offset, const Operand& value) {
  store(array, offset, value, nullptr);
}
void store_offset(Array array, const Operand& offset, const Operand& value, const Tile& mask) {
  store(array, offset, value, mask.value(value.location));
}

}  // namespace tile
