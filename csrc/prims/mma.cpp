// The matrix product of two tiles added to an accumulator.
#include "prims/mma.h"

namespace tile {
namespace {

bool accumulates(DType x, DType y, DType acc) {
  struct Row {
    DTypeSet operands;
    DTypeSet accumulators;
    bool mixed;  // the operands may differ within the set
  };
  static constexpr Row rows[] = {
      {DTypeSet(DType::f16), DTypeSet(DType::f16, DType::f32), false},
      {DTypeSet(DType::bf16), DTypeSet(DType::f32), false},
      {DTypeSet(DType::f32), DTypeSet(DType::f32), false},
      {DTypeSet(DType::tf32), DTypeSet(DType::f32), false},
      {DTypeSet(DType::f64), DTypeSet(DType::f64), false},
      {DTypeSet(DType::f8e4m3, DType::f8e5m2), DTypeSet(DType::f16, DType::f32), true},
      {DTypeSet(DType::i8, DType::u8), DTypeSet(DType::i32), true}};
  for (const Row& row : rows)
    if (row.operands.has(x) && row.operands.has(y) && (row.mixed || x == y) && row.accumulators.has(acc))
      return true;
  return false;
}

std::vector<Type> infer_mma(const Op& op) {
  const Type &x = op.type(0), &y = op.type(1), &acc = op.type(2);
  size_t rank = x.shape.size();
  if ((rank != 2 && rank != 3) || y.shape.size() != rank || acc.shape.size() != rank)
    fail(op, ErrorKind::value, "cannot multiply ", x, " by ", y, " onto ", acc,
         "; all must have 2 or all 3 axes");
  if (x.shape[rank - 1] != y.shape[rank - 2])
    fail(op, ErrorKind::value, "cannot multiply ", x, " by ", y, "; the inner extents differ");
  Shape product{x.shape[rank - 2], y.shape[rank - 1]};
  if (rank == 3) product.insert(product.begin(), x.shape[0]);
  if (acc.shape != product || (rank == 3 && x.shape[0] != y.shape[0]))
    fail(op, ErrorKind::value, "the accumulator is ", acc, " but the product of ", x, " and ", y,
         " has shape ", product);
  if (!accumulates(x.dtype, y.dtype, acc.dtype))
    fail(op, ErrorKind::type, "cannot multiply ", x.dtype, " by ", y.dtype, " into ", acc.dtype,
         "; f16, bf16, f8, tf32 and f32 accumulate in f32, f64 in f64, i8 and u8 in i32");
  return {acc};
}

const Register mma_{
    {.name = "mma",
     .operands = 3,
     .infer = infer_mma,
     .doc = "x @ y + accumulator; products in the accumulator's dtype, summed in any order."}};

}  // namespace

Tile mma(Operand x, Operand y, Operand acc) {
  return Tile(emit(mma_, {x.any(), y.any(), acc.any()}, {}, x.location));
}

}  // namespace tile
