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

}  // namespace

void adjoint_of_mma(Adjoints& adjoints) {
  Value* g = adjoints.of();
  if (!g) return;
  Value *x = adjoints.op.operands[0], *y = adjoints.op.operands[1];
  if (adjoints.wants(0)) adjoints.add(0, product(adjoints, g, transposed(adjoints, y), x->type.dtype));
  if (adjoints.wants(1)) adjoints.add(1, product(adjoints, transposed(adjoints, x), g, y->type.dtype));
  if (adjoints.wants(2)) adjoints.add(2, g);
}

}  // namespace tile
