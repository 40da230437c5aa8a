// mma: the matrix product of two tiles, added to an accumulator.
#include "prims/mma.h"

#include "ir/build.h"
#include "prims/adjoints.h"
#include "prims/tangents.h"

namespace tile {
namespace {

bool accumulates(DType x, DType y, DType acc) {
  struct Row {
    DTypeSet operands;
    DTypeSet accumulators;
    bool mixed;  // the operands' dtypes may differ within the set
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

// The product rule.
std::vector<Value*> mma_tangent(Builder& build, const Op& op, Tangents tangents) {
  Value* sum = tangents[2];
  for (const size_t i : {0, 1}) {
    if (!tangents[i]) continue;
    std::vector<Value*> operands{op.operands[0], op.operands[1], tangent_or_zero(build, sum, op.type(2))};
    operands[i] = tangents[i];
    sum = build.emit(*op.primitive, std::move(operands), op.attributes);
  }
  return {sum};
}

const Register mma_{
    {.name = "mma",
     .operands = 3,
     .tangent = mma_tangent,
     .infer = infer_mma,
     .doc =
         "x @ y + accumulator; products in the accumulator's dtype, summed in any order.\n"
         "operands: x [m, k] or [b, m, k], y [k, n] or [b, k, n], accumulator [m, n] or [b, "
         "m, n].\n"
         "result: the accumulator's type.\n"
         "dtypes: f16, bf16, tf32, f32, f64, f8e4m3, f8e5m2, i8 and u8.\n"
         "f16 takes an accumulator of f16 or f32; bf16, tf32 and f32 one of f32; f64 of "
         "f64; f8e4m3 and f8e5m2, also mixed, of f16 or f32; i8 and u8, also mixed, of i32, "
         "which wraps. f32 is never rounded to tf32. A CPU with AVX512_BF16 and without AMX "
         "treats bf16 elements below 2^-126 as 0 if an operand is loaded from memory.\n"
         "GPU: tensor cores multiply all dtypes except f32, and all accumulators except "
         "f16, if m is a multiple of 16, n of 8 (8-bit operands: 16) and the depth in bytes "
         "of 32 (f64: 64); 8-bit floats from sm_89 on, on sm_100 as f16, and on sm_90 too "
         "unless both operands are loaded and contiguous along k, where their sums keep about "
         "14 bits. Other products, and those of 8-bit floats on sm_80 and sm_86, use FMA: slower, with the "
         "same results except for rounding.\n"
         "C++: mma.",
     .adjoint = adjoint_of_mma}};

// Returns operand i's axis along k.
size_t deep_axis(const Op& op, size_t i) { return op.type(i).shape.size() - (i == 0 ? 1 : 2); }

std::vector<Type> infer_mma_scaled(const Op& op) {
  const Type& acc = op.type(4);
  for (const size_t i : {0, 2}) {
    const Type &x = op.type(i), &scale = op.type(i + 1);
    if (x.dtype != DType::f8e4m3 && x.dtype != DType::f8e5m2)
      fail(op, ErrorKind::type, "cannot scale ", x, "; operands are f8e4m3 or f8e5m2");
    if (x.rank() != 2 && x.rank() != 3)
      fail(op, ErrorKind::value, "cannot multiply ", x, "; all must have 2 or all 3 axes");
    Shape shape = x.shape;
    const size_t axis = deep_axis(op, i);
    const bool divides = scale.rank() == x.rank() && shape[axis] % scale.shape[axis] == 0;
    if (divides) shape[axis] = scale.shape[axis];
    if (!divides || scale.shape != shape || scale.dtype != DType::u8)
      fail(op, ErrorKind::value, "the scales of ", x, " are ", scale,
           "; they are u8, the bits of e8m0, one for each block of elements along axis ", axis);
  }
  if (acc.dtype != DType::f32)
    fail(op, ErrorKind::type, "cannot multiply into ", acc, "; scaled products accumulate in f32");
  return {acc};
}

// 2^(bits - 127): the bits are a float's exponent, except that 0 means a subnormal and 255 NaN.
Value* scaled(Builder& build, Value* x, Value* bits, size_t axis) {
  const auto like = [&](DType dtype, int64_t value) {
    return build.splat(Constant::of(dtype, value), bits->type.shape);
  };
  const auto make = [&](const char* name, std::vector<Value*> operands, Attributes attributes = {}) {
    return build.emit(name, std::move(operands), std::move(attributes));
  };
  Value* wide = make("astype", {bits}, {{"dtype", DType::u32}});
  Value* exponent = make("shift_left", {wide, like(DType::u32, 23)});
  exponent = make("where", {make("eq", {wide, like(DType::u32, 0)}), like(DType::u32, 0x00400000), exponent});
  exponent =
      make("where", {make("eq", {wide, like(DType::u32, 255)}), like(DType::u32, 0x7fc00000), exponent});
  Value* scale = make("bitcast", {exponent}, {{"dtype", DType::f32}});
  Shape open = scale->type.shape, repeated = open;
  const int64_t each = x->type.shape[axis] / open[axis];
  open.insert(open.begin() + static_cast<ptrdiff_t>(axis) + 1, 1);
  repeated.insert(repeated.begin() + static_cast<ptrdiff_t>(axis) + 1, each);
  scale = build.broadcast(make("reshape", {scale}, {{"shape", open}}), repeated);
  scale = make("reshape", {scale}, {{"shape", x->type.shape}});
  Value* product = make("mul", {make("astype", {x}, {{"dtype", DType::f32}}), scale});
  return make("astype", {product}, {{"dtype", DType::bf16}});
}
std::vector<Value*> expand_mma_scaled(Builder& build, const Op& op) {
  Value* x = scaled(build, op.operands[0], op.operands[1], deep_axis(op, 0));
  Value* y = scaled(build, op.operands[2], op.operands[3], deep_axis(op, 2));
  return {build.emit(mma_, {x, y, op.operands[4]})};
}

const Register mma_scaled_{
    {.name = "mma_scaled",
     .operands = 5,
     .infer = infer_mma_scaled,
     .expand = expand_mma_scaled,
     .doc = "x @ y + accumulator of 8-bit floats with a power of two for each block of "
            "elements along k.\n"
            "operands: x, its scales, y, its scales, accumulator. x and y as of mma, f8e4m3 or "
            "f8e5m2; scales u8, the bits of e8m0: 2^(bits - 127), 255 is NaN; the scales' "
            "shape determines how many elements along k share one.\n"
            "result: the accumulator's type, f32.\n"
            "dtypes: f8e4m3 and f8e5m2.\n"
            "Scaled elements are rounded to bf16 and then multiplied as by mma; that is exact "
            "unless they are below 2^-126.\n"
            "GPU: every chip multiplies the scaled elements as bf16; the scaled instructions "
            "of sm_100 and sm_120 are not used.\n"
            "C++: mma_scaled."}};

// Returns a batch of matrices, one for each of the accumulator's; a single matrix is repeated.
Value* batched(const char* operation, const Operand& operand, const Value* acc) {
  Value* x = operand.any();
  const Shape &shape = x->type.shape, &batch = acc->type.shape;
  if (batch.size() != 3 || shape.size() < 2 || (shape.size() == 3 && shape[0] != 1)) return x;
  return broadcast_to(operation, x, {batch[0], shape.end()[-2], shape.end()[-1]}, operand.location);
}

}  // namespace

Tile mma(Operand x, Operand y, Operand acc) {
  Value* sum = acc.any();
  return Tile(emit(mma_, {batched("mma", x, sum), batched("mma", y, sum), sum}, {}, x.location));
}
Tile mma_scaled(Operand x, Operand x_scale, Operand y, Operand y_scale, Operand acc) {
  std::vector<Value*> operands;
  for (const Operand& each : {x, x_scale, y, y_scale})
    operands.push_back(batched("mma_scaled", each, acc.any()));
  operands.push_back(acc.any());
  return Tile(emit(mma_scaled_, std::move(operands), {}, x.location));
}

}  // namespace tile
