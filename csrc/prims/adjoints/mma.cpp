// Reverse mode of the matrix product.
#include "prims/adjoints.h"

namespace tile {
namespace {

Value* transposed(Adjoints& adjoints, Value* x) {
  const Shape axes = x->type.rank() == 2 ? Shape{1, 0} : Shape{0, 2, 1};
  return adjoints.emit("permute", {x}, {{"axes", axes}});
}

// Multiplies the adjoint by an operand of the product, in the operand's dtype; 8-bit floats as bf16.
Value* product(Adjoints& adjoints, Value* x, Value* y, DType dtype) {
  const DType narrow = info(dtype).bits == 8 ? DType::bf16 : dtype;
  const Shape &left = x->type.shape, &right = y->type.shape;
  Shape shape = left;
  shape.back() = right.back();
  Value* zeros = adjoints.zeros(Type::tile(adjoint_dtype(dtype), shape));
  return adjoints.emit("mma", {adjoints.cast(x, narrow), adjoints.cast(y, narrow), zeros});
}

// Returns an operand with zeros for the rows, or columns, where all of the adjoint's are 0, as in padding: if
// the operand is infinite or NaN there, the sums of products would be NaN.
Value* without_padding(Adjoints& adjoints, Value* operand, Value* g, bool rows) {
  if (adjoints.is_finite_in_padding(adjoints.op.operands[rows ? 0 : 1])) return operand;
  const auto rank = static_cast<int64_t>(g->type.rank());
  const int64_t axis = rows ? rank - 1 : rank - 2;  // along which the adjoint is seen
  Shape kept = g->type.shape;
  kept[static_cast<size_t>(axis)] = 1;
  Value* most =
      adjoints.emit("reduce_max", {adjoints.emit("abs", {g})}, {{"axes", std::vector<int64_t>{axis}}});
  Value* none =
      adjoints.emit("eq", {adjoints.reshaped(most, kept), adjoints.zeros(Type::tile(g->type.dtype, kept))});
  none = adjoints.build.broadcast(none, operand->type.shape);
  return adjoints.emit("where", {none, adjoints.zeros(operand->type), operand});
}

}  // namespace

void adjoint_of_mma(Adjoints& adjoints) {
  Value* g = adjoints.of();
  if (!g) return;
  Value *x = adjoints.op.operands[0], *y = adjoints.op.operands[1];
  if (adjoints.wants(0)) {
    Value* other = without_padding(adjoints, y, g, false);
    adjoints.add(0, product(adjoints, g, transposed(adjoints, other), x->type.dtype));
  }
  if (adjoints.wants(1)) {
    Value* other = without_padding(adjoints, x, g, true);
    adjoints.add(1, product(adjoints, transposed(adjoints, other), g, y->type.dtype));
  }
  if (adjoints.wants(2)) adjoints.add(2, g);
}

}  // namespace tile
