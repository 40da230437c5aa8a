// Creates tiles and changes their shape: arange, reshape, permute and cat are primitives; full and others are
// built from them.
#include "prims/shape.h"

#include <algorithm>

#include "prims/adjoints.h"
#include "prims/axes.h"
#include "prims/tangents.h"

namespace tile {
namespace {

std::vector<Type> infer_arange(const Op& op) {
  if (op.integer("size") < 1)
    fail(op, ErrorKind::value, "size is ", op.integer("size"), "; it must be at least 1");
  return {Type::tile(op.dtype("dtype"), {op.integer("size")})};
}

std::vector<Type> infer_reshape(const Op& op) {
  const Shape& to = op.integers("shape");
  if (element_count(to) != element_count(op.type(0).shape) ||
      std::any_of(to.begin(), to.end(), [](int64_t e) { return e < 1; }))
    fail(op, ErrorKind::value, "cannot view ", op.type(0), " as ", to, "; the element counts must be equal");
  return {Type::tile(op.type(0).dtype, to)};
}

std::vector<Type> infer_permute(const Op& op) {
  const auto& axes = op.integers("axes");
  const Shape& from = op.type(0).shape;
  std::vector<int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  bool good = axes.size() == from.size();
  for (size_t i = 0; good && i < sorted.size(); ++i) good = sorted[i] == static_cast<int64_t>(i);
  if (!good)
    fail(op, ErrorKind::value, "axes ", axes, " are no permutation of the axes of ", op.type(0),
         "; name each axis once");
  Shape to;
  for (int64_t axis : axes) to.push_back(from[static_cast<size_t>(axis)]);
  return {Type::tile(op.type(0).dtype, to)};
}

std::vector<Type> infer_cat(const Op& op) {
  const Type &x = op.type(0), &y = op.type(1);
  auto axis = static_cast<size_t>(op.integer("axis"));
  Shape other = y.shape, joint = x.shape;
  if (x.rank() == y.rank() && axis < joint.size()) {
    joint[axis] += other[axis];
    other[axis] = joint[axis];
  }
  if (x.dtype != y.dtype || other != joint)
    fail(op, ErrorKind::value, "cannot join ", x, " and ", y, " along axis ", axis,
         "; dtypes and the other extents must be equal");
  return {Type::tile(x.dtype, joint)};
}

const Register arange_{{.name = "arange",
                        .operands = 0,
                        .dtypes = dtypes::numbers,
                        .infer = infer_arange,
                        .doc =
                            "0, 1, 2, … along one axis.\n"
                            "operands: none.\n"
                            "{dtype}: of the result; a dtype of numbers.\n"
                            "{size}: the number of elements, at least 1.\n"
                            "result: dtype[size].\n"
                            "The language multiplies by `step` and adds `start` in the dtype: integers wrap, "
                            "floats round.\n"
                            "C++: arange."}};
const Register reshape_{{.name = "reshape",
                         .operands = 1,
                         .tangent = linear_tangent,
                         .infer = infer_reshape,
                         .doc =
                             "The elements, in row-major order, in another shape.\n"
                             "operands: x, a tile.\n"
                             "{shape}: of the result, with the same number of elements; the language accepts "
                             "one -1, which is inferred.\n"
                             "result: x's dtype, `shape`.\n"
                             "C++: Tile::reshape, Tile::expand_dims.",
                         .adjoint = adjoint_of_reshape}};
const Register permute_{{.name = "permute",
                         .operands = 1,
                         .tangent = linear_tangent,
                         .infer = infer_permute,
                         .doc = "The axes in another order.\n"
                                "operands: x, a tile.\n"
                                "{axes}: for each axis of the result, the axis of x.\n"
                                "result: x's dtype, its extents in that order.\n"
                                "C++: Tile::permute, Tile::t.",
                         .adjoint = adjoint_of_permute}};
const Register cat_{{.name = "cat",
                     .operands = 2,
                     .tangent = joint_tangent,
                     .infer = infer_cat,
                     .doc = "Concatenates two tiles along an axis.\n"
                            "operands: x, y: tiles of one dtype whose other extents are equal.\n"
                            "{axis}: the axis along which y follows x.\n"
                            "result: the operands' dtype; the extent along the axis is the sum of both.\n"
                            "C++: cat.",
                     .adjoint = adjoint_of_cat}};

}  // namespace

Tile arange(int64_t size, DType dtype, Location location) {
  return Tile(emit(arange_, {}, {{"dtype", dtype}, {"size", size}}, location));
}
Tile arange(int64_t size, DType dtype, const Operand& start, const Operand& step, Location location) {
  const auto is = [](const Operand& x, int64_t number) {
    return x.literal && x.literal->dtype == DType::i64 && x.literal->integer == number;
  };
  Value* indices = emit(arange_, {}, {{"dtype", dtype}, {"size", size}}, location);
  const auto apply = [&](const char* op, const char* what, const Operand& x) {
    Value* scalar = x.as(dtype, "arange");
    if (!scalar->type.is_scalar())
      fail(x.location, ErrorKind::value, "arange: ", what, " is ", scalar->type, "; pass a scalar");
    indices = emit(op, {indices, tile::broadcast_to("arange", scalar, {size}, location)}, {}, location);
  };
  if (!is(step, 1)) apply("mul", "step", step);
  if (!is(start, 0)) apply("add", "start", start);
  return Tile(indices);
}
Tile full(Shape shape, Operand value, DType dtype, Location location) {
  if (!value.literal) return Tile(broadcast_to("full", value.as(dtype, "full"), shape, location));
  // A literal is converted, whatever its kind.
  Constant constant = value.literal->dtype == DType::f64 ? Constant::of(dtype, value.literal->floating)
                                                         : Constant::of(dtype, value.literal->integer);
  Value* scalar = emit("constant", {}, {{"dtype", dtype}, {"value", constant.attribute()}}, location);
  return Tile(broadcast_to("full", scalar, shape, location));
}
Tile zeros(Shape shape, DType dtype, Location location) { return full(std::move(shape), 0, dtype, location); }
Tile ones(Shape shape, DType dtype, Location location) { return full(std::move(shape), 1, dtype, location); }

Tile cat(Operand x, Operand y, int axis) {
  Value *a = x.any(), *b = y.any();
  return Tile(emit(cat_, {a, b}, {{"axis", normal_axis("cat", axis, a->type, x.location)}}, x.location));
}

Tile Tile::reshape(Shape shape, Location location) const {
  Value* x = value(location);
  auto open = std::find(shape.begin(), shape.end(), -1);
  if (open != shape.end()) {
    *open = 1;
    *open = element_count(x->type.shape) / std::max<int64_t>(1, element_count(shape));
  }
  return Tile(x->type.shape == shape ? x : emit(reshape_, {x}, {{"shape", shape}}, location));
}
Tile Tile::broadcast_to(Shape shape, Location location) const {
  return Tile(tile::broadcast_to("broadcast_to", value(location), shape, location));
}
Tile Tile::expand_dims(int axis, Location location) const {
  Value* x = value(location);
  int64_t at = normal_axis("expand_dims", axis, x->type, location, x->type.rank() + 1);
  Shape shape = x->type.shape;
  shape.insert(shape.begin() + at, 1);
  return reshape(shape, location);
}
Tile Tile::permute(std::vector<int> axes, Location location) const {
  Value* x = value(location);
  std::vector<int64_t> normal;
  for (int axis : axes) normal.push_back(normal_axis("permute", axis, x->type, location));
  return Tile(emit(permute_, {x}, {{"axes", normal}}, location));
}
Tile Tile::t(Location location) const {
  int n = value(location)->type.rank();
  if (n < 2)
    fail(location, ErrorKind::value, "t: ", value(location)->type,
         " has fewer than two axes; reshape() it first");
  std::vector<int> axes;
  for (int i = 0; i < n - 2; ++i) axes.push_back(i);
  axes.push_back(n - 1);
  axes.push_back(n - 2);
  return permute(axes, location);
}

}  // namespace tile
