// extract and insert: a sub-tile at an index that counts sub-tiles.
#include "prims/subtile.h"
#include "prims/adjoints.h"

#include "prims/tangents.h"

namespace tile {
namespace {

// Checks the sub-tile's extents along each axis of the tile; the shape {} means one element.
void check_subtile(const Op& op, const Shape& shape, size_t first_index) {
  const Type& x = op.type(0);
  if (!shape.empty() && shape.size() != x.shape.size())
    fail(op, ErrorKind::value, "a sub-tile of shape ", shape, " does not fit ", x,
         "; give one extent per axis, or none for one element");
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] < 1 || x.shape[i] % shape[i] != 0)
      fail(op, ErrorKind::value, "a sub-tile of shape ", shape, " does not divide ", x,
           "; each extent must divide that of the tile");
  if (op.operands.size() - first_index != x.shape.size())
    fail(op, ErrorKind::value, op.operands.size() - first_index, " indices for ", x, "; give one per axis");
  for (size_t i = first_index; i < op.operands.size(); ++i)
    if (!op.type(i).is_scalar() || !is_integer(op.type(i).dtype))
      fail(op, ErrorKind::type, "indices must be integer scalars, got ", op.type(i));
}

std::vector<Type> infer_extract(const Op& op) {
  const Shape& shape = op.integers("shape");
  check_subtile(op, shape, 1);
  return {Type::tile(op.type(0).dtype, shape)};
}
std::vector<Type> infer_insert(const Op& op) {
  if (op.type(1).dtype != op.type(0).dtype)
    fail(op, ErrorKind::type, "cannot put ", op.type(1), " into ", op.type(0), "; cast with astype()");
  check_subtile(op, op.type(1).shape, 2);
  return {op.type(0)};
}

const Register extract_{{.name = "extract",
                         .tangent = linear_tangent,
                         .infer = infer_extract,
                         .doc =
                             "Extracts the sub-tile of a shape at an index that counts sub-tiles; an index "
                             "outside is clamped.\n"
                             "operands: x, an integer scalar for each axis.\n"
                             "{shape}: of the sub-tile; its extents divide x's; [] is one element.\n"
                             "result: x's dtype, `shape`.\n"
                             "The language checks a constant index.\n"
                             "C++: extract.",
                         .adjoint = adjoint_of_extract}};
const Register insert_{
    {.name = "insert",
     .tangent = joint_tangent,
     .infer = infer_insert,
     .doc = "Replaces the sub-tile of the second operand's shape at an index by that operand; "
            "an index outside is clamped.\n"
            "operands: x, the sub-tile of x's dtype, an integer scalar for each axis.\n"
            "result: x's type.\n"
            "The language checks a constant index.\n"
            "C++: insert.",
     .adjoint = adjoint_of_insert}};

// Appends the operands of the indices; a constant index must be in range.
void add_indices(const char* operation, const Type& x, const std::vector<Operand>& index, const Shape& shape,
                 std::vector<Value*>& operands) {
  for (size_t i = 0; i < index.size(); ++i) {
    const Operand& each = index[i];
    operands.push_back(each.any());
    if (!each.literal || each.literal->dtype != DType::i64 || i >= x.shape.size()) continue;
    if (!shape.empty() && (i >= shape.size() || shape[i] < 1 || x.shape[i] % shape[i] != 0)) continue;
    const int64_t count = shape.empty() ? x.shape[i] : x.shape[i] / shape[i];
    if (each.literal->integer < 0 || each.literal->integer >= count)
      fail(each.location, ErrorKind::value, operation, ": index ", each.literal->integer, " of axis ", i,
           " is out of range for sub-tiles ", shape, " of ", x, "; there are ", count);
  }
}

}  // namespace

Tile extract(const Operand& x, const std::vector<Operand>& index, Shape shape) {
  std::vector<Value*> operands{x.any()};
  add_indices("extract", operands[0]->type, index, shape, operands);
  return Tile(emit(extract_, std::move(operands), {{"shape", std::move(shape)}}, x.location));
}

Tile insert(const Operand& x, const std::vector<Operand>& index, const Operand& value) {
  Value* tile = x.any();
  std::vector<Value*> operands{tile, value.literal ? value.as(tile->type.dtype, "insert") : value.value};
  add_indices("insert", tile->type, index, Shape(operands[1]->type.shape), operands);
  return Tile(emit(insert_, std::move(operands), {}, x.location));
}

}  // namespace tile
