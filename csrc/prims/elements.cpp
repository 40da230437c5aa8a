// gather and scatter.
#include "prims/elements.h"

#include "prims/memory.h"

namespace tile {

const Shape& check_element_address(const Op& op, size_t first_index) {
  size_t rank = static_cast<size_t>(op.type(0).array_rank);
  size_t masked = op.operands.size() - first_index - rank;
  if (!op.type(0).is_array() || op.operands.size() < first_index + rank || masked > 1)
    fail(op, ErrorKind::value, op.operands.size() - first_index, " index tiles for ", op.type(0),
         "; give one an axis");
  const Shape& shape = op.type(op.operands.size() - 1).shape;
  for (size_t i = first_index; i < op.operands.size(); ++i) {
    bool mask = i == first_index + rank;
    if (op.type(i).shape != shape ||
        (mask ? op.type(i).dtype != DType::boolean : !is_integer(op.type(i).dtype)))
      fail(op, ErrorKind::type, mask ? "the mask" : "an index tile", " is ", op.type(i), "; it must be ",
           mask ? "bool" : "an integer tile", " of shape ", shape);
  }
  return shape;
}

ElementIndex element_index(const char* operation, Array array, const std::vector<Operand>& index,
                           const Location& at, Value* joined) {
  if (static_cast<int>(index.size()) != array.rank())
    fail(at, ErrorKind::value, operation, ": ", index.size(), " index tiles for ", array.value()->type,
         "; give one an axis");
  ElementIndex elements;
  if (joined) elements.shape = joined->type.shape;
  for (const Operand& each : index) {
    elements.index.push_back(each.any());
    elements.shape =
        broadcast_shape(operation, Type::tile(DType::i32, elements.shape), elements.index.back()->type, at);
  }
  for (Value*& each : elements.index) each = broadcast_to(operation, each, elements.shape, at);
  return elements;
}

Attribute padding(DType dtype, double pad, const Location& at, const char* operation) {
  if (is_floating(dtype)) return round_to(dtype, pad);
  if (pad != 0)
    fail(at, ErrorKind::value, operation, ": a ", dtype, " array is padded with 0, not ", show_double(pad));
  return int64_t{0};
}

Value* written_value(const char* operation, Array array, const Operand& value) {
  return value.literal ? value.as(array.dtype(), operation)
                       : Tile(value.value).astype(array.dtype(), value.location).value(value.location);
}

namespace {

std::vector<Type> infer_gather(const Op& op) {
  return {Type::tile(op.type(0).dtype, check_element_address(op, 1))};
}
std::vector<Type> infer_scatter(const Op& op) {
  const Shape& shape = check_element_address(op, 2);
  if (op.type(1) != Type::tile(op.type(0).dtype, shape))
    fail(op, ErrorKind::type, "cannot write ", op.type(1), " to elements ", shape, " of ", op.type(0));
  return {};
}

const Register gather_{
    {.name = "gather",
     .traits = {.reads = true},
     .infer = infer_gather,
     .doc = "Elements of an array at index tiles; those outside or masked out are `pad`."}};
const Register scatter_{
    {.name = "scatter",
     .traits = {.writes = true},
     .infer = infer_scatter,
     .doc = "Writes elements of an array at index tiles; those outside or masked out are dropped."}};

Tile gather_elements(Array array, const std::vector<Operand>& index, Value* mask, double pad,
                     const Location& at) {
  ElementIndex elements = element_index("gather", array, index, at, mask);
  std::vector<Value*> operands{array.value()};
  operands.insert(operands.end(), elements.index.begin(), elements.index.end());
  if (mask) operands.push_back(broadcast_to("gather", mask, elements.shape, at));
  return Tile(emit(gather_, operands, {{"pad", padding(array.dtype(), pad, at, "gather")}}, at));
}

}  // namespace

Tile gather(Array array, std::initializer_list<Operand> index, double pad, Location location) {
  return gather_elements(array, index, nullptr, pad, location);
}
Tile gather(Array array, std::initializer_list<Operand> index, Tile mask, double pad, Location location) {
  return gather_elements(array, index, mask.value(location), pad, location);
}
void scatter(Array array, std::initializer_list<Operand> index, Operand value) {
  const Location& at = value.location;
  Value* written = written_value("scatter", array, value);
  ElementIndex elements = element_index("scatter", array, index, at, written);
  std::vector<Value*> operands{array.value(), broadcast_to("scatter", written, elements.shape, at)};
  operands.insert(operands.end(), elements.index.begin(), elements.index.end());
  emit(scatter_, operands, {}, at);
}

}  // namespace tile
