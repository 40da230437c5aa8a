// gather and scatter.
#include "prims/elements.h"

#include "prims/memory.h"
#include "prims/padding.h"

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
     .doc = "Elements of an array at index tiles; those outside or masked out are `pad`.\n"
            "operands: array, an integer tile for each axis, perhaps a bool mask; all tiles of one "
            "shape.\n"
            "{pad}: what stands for elements that are not read; of integers and bool 0.\n"
            "result: a tile of the array's dtype and the index tiles' shape.\n"
            "A negative index is outside: it does not count from the end. Masked elements are not "
            "read.\n"
            "C++: gather."}};
const Register scatter_{
    {.name = "scatter",
     .traits = {.writes = true},
     .infer = infer_scatter,
     .doc = "Writes elements of an array at index tiles; those outside or masked out are dropped.\n"
            "operands: array, value of the array's dtype, an integer tile for each axis, perhaps a "
            "bool mask; all tiles of one shape.\n"
            "The language casts the value to the array's dtype and broadcasts value, index and mask "
            "to each other. Of two equal indices either value stays.\n"
            "C++: scatter."}};

Tile gather_elements(Array array, const std::vector<Operand>& index, Value* mask, double pad,
                     const Location& at) {
  ElementIndex elements = element_index("gather", array, index, at, mask);
  std::vector<Value*> operands{array.value()};
  operands.insert(operands.end(), elements.index.begin(), elements.index.end());
  if (mask) operands.push_back(broadcast_to("gather", mask, elements.shape, at));
  return Tile(emit(gather_, operands, {{"pad", padding_of("gather", array.dtype(), pad, at)}}, at));
}

void scatter_elements(Array array, const std::vector<Operand>& index, const Operand& value, Value* mask) {
  const Location& at = value.location;
  std::vector<Value*> operands{written_value("scatter", array, value)};
  const ElementIndex elements = element_index("scatter", array, index, at, operands[0]);
  operands.insert(operands.end(), elements.index.begin(), elements.index.end());
  Shape shape = elements.shape;
  if (mask) {
    shape = broadcast_shape("scatter", Type::tile(DType::i32, shape), mask->type, at);
    operands.push_back(mask);
  }
  for (Value*& operand : operands) operand = broadcast_to("scatter", operand, shape, at);
  operands.insert(operands.begin(), array.value());
  emit(scatter_, operands, {}, at);
}

}  // namespace

Tile gather(Array array, std::initializer_list<Operand> index, double pad, Location location) {
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
