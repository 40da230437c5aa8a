// gather and scatter.
#include "prims/elements.h"

#include <algorithm>

#include "dsl/tracer.h"
#include "ir/atomic.h"
#include "prims/adjoints.h"
#include "prims/memory.h"
#include "prims/padding.h"
#include "prims/tangents.h"

namespace tile {

const Shape& check_element_address(const Op& op, size_t first_index) {
  const size_t count = index_count(op), masked = op.operands.size() - first_index - count;
  if (!op.type(0).is_array() || op.operands.size() < first_index + count || masked > 1)
    fail(op, ErrorKind::value, op.operands.size() - std::min(op.operands.size(), first_index),
         " index tiles for ", op.type(0), is_flat(op) ? "; give one of offsets" : "; give one per axis");
  const Shape& shape = op.type(op.operands.size() - 1).shape;
  for (size_t i = first_index; i < op.operands.size(); ++i) {
    bool mask = i == first_index + count;
    if (op.type(i).shape != shape ||
        (mask ? op.type(i).dtype != DType::boolean : !is_integer(op.type(i).dtype)))
      fail(op, ErrorKind::type, mask ? "the mask" : "an index tile", " is ", op.type(i), "; it must be ",
           mask ? "bool" : "an integer tile", " of shape ", shape);
  }
  return shape;
}

std::vector<Value*> element_operands(const char* operation, Array array, std::vector<Value*> values,
                                     const std::vector<Operand>& index, Value* mask, const Location& at,
                                     bool flat) {
  Tracer::current(at).check_visible(array.value(), "this Array view", at);
  if (!flat && static_cast<int>(index.size()) != array.rank())
    fail(at, ErrorKind::value, operation, ": ", index.size(), " index tiles for ", array.value()->type,
         "; give one per axis");
  for (const Operand& each : index) values.push_back(each.any());
  if (mask) values.push_back(mask);
  broadcast_together(operation, values, at);
  values.insert(values.begin(), array.value());
  return values;
}

Value* written_value(const char* operation, Array array, const Operand& value) {
  return value.literal ? value.as(array.dtype(), operation)
                       : Tile(value.value).astype(array.dtype(), value.location).value(value.location);
}

namespace {

std::vector<Type> infer_gather(const Op& op) {
  const Shape& shape = check_element_address(op, 1);
  require_pad(op);
  return {Type::tile(op.type(0).dtype, shape)};
}
std::vector<Type> infer_scatter(const Op& op) {
  const Shape& shape = check_element_address(op, 2);
  if (op.type(1) != Type::tile(op.type(0).dtype, shape))
    fail(op, ErrorKind::type, "cannot write ", op.type(1), " to elements ", shape, " of ", op.type(0));
  return {};
}

const Register gather_{
    {.name = "gather",
     .traits = {.reads = true, .picks = true},
     .tangent = linear_tangent,
     .infer = infer_gather,
     .doc = "Loads elements of an array at index tiles; those outside or masked out are `pad`.\n"
            "operands: array, an integer tile for each axis, and optionally a bool mask; all "
            "tiles of one shape.\n"
            "{pad}: the value of elements that are not read; 0 for integers and bool.\n"
            "result: a tile of the array's dtype and the index tiles' shape.\n"
            "A negative index is outside; it does not count from the end. Masked elements are "
            "not read.\n"
            "C++: gather.",
     .adjoint = adjoint_of_gather}};
const Register scatter_{
    {.name = "scatter",
     .traits = {.writes = true, .picks = true},
     .tangent = store_tangent,
     .infer = infer_scatter,
     .doc = "Writes elements of an array at index tiles; those outside or masked out are "
            "dropped.\n"
            "operands: array, value of the array's dtype, an integer tile for each axis, and "
            "optionally a bool mask; all tiles of one shape.\n"
            "The language casts the value to the array's dtype and broadcasts value, index and "
            "mask to each other. With two equal indices either value is stored.\n"
            "C++: scatter.",
     .adjoint = adjoint_of_scatter}};

Tile gather_elements(Array array, const std::vector<Operand>& index, Value* mask, double pad,
                     const Location& at) {
  std::vector<Value*> operands = element_operands("gather", array, {}, index, mask, at);
  return Tile(
      emit(gather_, std::move(operands), {{"pad", padding_of("gather", array.dtype(), pad, at)}}, at));
}

void scatter_elements(Array array, const std::vector<Operand>& index, const Operand& value, Value* mask) {
  const Location& at = value.location;
  Value* written = written_value("scatter", array, value);
  emit(scatter_, element_operands("scatter", array, {written}, index, mask, at), {}, at);
}

}  // namespace

Tile gather(Array array, std::initializer_list<Operand> index, double pad, Location location) {
  return gather_elements(array, index, nullptr, pad, location);
}
Tile gather(Array array, const std::vector<Operand>& index, double pad, Location location) {
  return gather_elements(array, index, nullptr, pad, location);
}
Tile gather(Array array, std::initializer_list<Operand> index, Tile mask, double pad, Location location) {
  return gather_elements(array, index, mask.value(location), pad, location);
}
void scatter(Array array, std::initializer_list<Operand> index, Operand value) {
  scatter_elements(array, index, value, nullptr);
}
void scatter(Array array, std::initializer_list<Operand> index, Operand value, const Tile& mask) {
  scatter_elements(array, index, value, mask.value(value.location));
}

}  // namespace tile
