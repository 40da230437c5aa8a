// Reductions over axes (the named ones, arg reductions, and those with a combine region) and scans.
#include "prims/reduce.h"

#include <algorithm>

#include "dsl/tracer.h"
#include "prims/adjoints.h"
#include "prims/axes.h"
#include "prims/elementwise.h"
#include "prims/tangents.h"

namespace tile {
namespace {

Shape without(const Op& op, const std::vector<int64_t>& axes) {
  Shape shape;
  const Shape& from = op.type(0).shape;
  size_t found = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    bool reduced = false;
    for (int64_t axis : axes) reduced |= axis == static_cast<int64_t>(i);
    found += reduced;
    if (!reduced) shape.push_back(from[i]);
  }
  if (found != axes.size())
    fail(op, ErrorKind::value, "axes ", axes, " are not distinct axes of ", op.type(0));
  return shape;
}

std::vector<Type> infer_reduce(const Op& op) {
  return {Type::tile(op.type(0).dtype, without(op, op.integers("axes")))};
}
std::vector<Type> infer_arg(const Op& op) {
  return {Type::tile(DType::i32, without(op, {op.integer("axis")}))};
}

// n tiles of one shape; the region takes 2n scalars (n accumulated, n new) and yields n.
void check_combine(const Op& op) {
  const Block& region = op.region();
  size_t n = op.operands.size();
  if (n == 0 || region.arguments.size() != 2 * n || !region.terminator() ||
      region.terminator()->operands.size() != n)
    fail(op, ErrorKind::value, "its region takes ", region.arguments.size(), " scalars and must take ", 2 * n,
         " and yield ", n);
  for (size_t i = 0; i < n; ++i) {
    Type scalar = Type::tile(op.type(i).dtype);
    if (op.type(i).shape != op.type(0).shape || region.arguments[i]->type != scalar ||
        region.arguments[n + i]->type != scalar || region.terminator()->operands[i]->type != scalar)
      fail(op, ErrorKind::type, "its region combines ", scalar, " but takes or yields another type");
  }
  for (const auto& inner : region.ops)
    if (!inner->regions.empty() || (!inner->traits().pure() && !inner->traits().terminator))
      fail(op, ErrorKind::value, "its region contains ", inner->name(), "; it may only contain arithmetic");
}
std::vector<Type> infer_reduce_region(const Op& op) {
  check_combine(op);
  std::vector<Type> types;
  for (size_t i = 0; i < op.operands.size(); ++i)
    types.push_back(Type::tile(op.type(i).dtype, without(op, {op.integer("axis")})));
  return types;
}
std::vector<Type> infer_scan(const Op& op) {
  check_combine(op);
  without(op, {op.integer("axis")});
  std::vector<Type> types;
  for (size_t i = 0; i < op.operands.size(); ++i) types.push_back(op.type(i));
  return types;
}

Axes axes_of(const Op& op) {
  const std::vector<int64_t>& axes = op.integers("axes");
  return Axes(std::vector<int>(axes.begin(), axes.end()));
}
// The elements that are equal to the extreme one share its tangent equally, as in torch.
std::vector<Value*> extreme_tangent(Builder&, const Op& op, Tangents tangents) {
  const Tile x(op.operands[0]);
  const Axes axes = axes_of(op);
  Shape kept = x.shape();
  for (int64_t axis : op.integers("axes")) kept[static_cast<size_t>(axis)] = 1;
  const Tile extreme = x == Tile(op.results[0]).reshape(kept).broadcast_to(x.shape());
  const Tile sum = where(extreme, Tile(tangents[0]), 0).sum(axes);
  return {(sum / extreme.astype(x.dtype()).sum(axes)).value()};
}
std::vector<Value*> prod_tangent(Builder&, const Op& op, Tangents tangents) {
  const auto step = [](std::vector<Tile> x, std::vector<Tile> y) {
    return std::vector<Tile>{x[0] * y[0], x[1] * y[0] + x[0] * y[1]};
  };
  return {reduce({Tile(op.operands[0]), Tile(tangents[0])}, axes_of(op), step)[1].value()};
}

#define REDUCTION(NAME, METHOD, DTYPES, TANGENT, ADJOINT, DOC)                                           \
  const Register NAME##_ {                                                                               \
    {                                                                                                    \
      .name = #NAME, .operands = 1, .tangent = TANGENT, .dtypes = dtypes::DTYPES, .infer = infer_reduce, \
      .doc = DOC                                                                                         \
          "\noperands: x, a tile.\n{axes}: the axes to reduce, ascending; "                              \
          "the language accepts negative ones, and none for all.\nresult: x's dtype, "                   \
          "its extents without those axes; keepdims makes them 1.\n"                                     \
          "C++: Tile::" METHOD ".",                                                                      \
      .adjoint = ADJOINT                                                                                 \
    }                                                                                                    \
  }
REDUCTION(reduce_sum, "sum", numbers, linear_tangent, adjoint_of_sum,
          "Sum over axes, in any order; 16-bit floats are summed in f32 and rounded once.\n"
          "Integers wrap in their dtype.");
REDUCTION(reduce_prod, "prod", numbers, prod_tangent, adjoint_of_prod,
          "Product over axes, in any order.\nIntegers wrap in their dtype.");
REDUCTION(reduce_max, "max", numbers, extreme_tangent, adjoint_of_extreme,
          "Largest element over axes; NaN is skipped unless all are.");
REDUCTION(reduce_min, "min", numbers, extreme_tangent, adjoint_of_extreme,
          "Smallest element over axes; NaN is skipped unless all are.");
REDUCTION(reduce_any, "any", boolean, nullptr, nullptr, "True if any element over the axes is true.");
REDUCTION(reduce_all, "all", boolean, nullptr, nullptr, "True if all elements over the axes are true.");
#undef REDUCTION

#define INDEX_OF(NAME, METHOD, WHICH)                                                                       \
  const Register NAME##_ {                                                                                  \
    {                                                                                                       \
      .name = #NAME, .operands = 1, .dtypes = dtypes::numbers, .infer = infer_arg,                          \
      .doc = "Index of the " WHICH                                                                          \
             " element along an axis, i32; the first of equal ones; NaN is skipped.\n"                      \
             "operands: x, a tile.\n{axis}: the axis to reduce; the language accepts several, or none for " \
             "all, and "                                                                                    \
             "returns the row-major index over these.\nresult: i32, x's extents without that axis; "        \
             "keepdims makes it 1. If all are NaN it is 0.\nC++: Tile::" METHOD "."                         \
    }                                                                                                       \
  }
INDEX_OF(argmax, "argmax", "largest");
INDEX_OF(argmin, "argmin", "smallest");
#undef INDEX_OF

const Register reduce_{{.name = "reduce",
                        .regions = 1,
                        .dtypes = dtypes::arithmetic,
                        .infer = infer_reduce_region,
                        .doc =
                            "Reduces an axis of n tiles with an associative combine region.\n"
                            "operands: n tiles of one shape.\n"
                            "{axis}: the axis to reduce; the language accepts several, or none for all.\n"
                            "result: n tiles of the operands' dtypes, without that axis.\n"
                            "Its region takes n accumulated scalars and n new ones and yields n; it may only "
                            "contain arithmetic. Elements are combined in the order of the axis, with any "
                            "grouping.\n"
                            "C++: reduce.",
                        .adjoint = adjoint_of_reduce}};
const Register scan_{{.name = "scan",
                      .regions = 1,
                      .dtypes = dtypes::arithmetic,
                      .infer = infer_scan,
                      .doc =
                          "Inclusive scan along an axis of n tiles, from its end if `reverse`.\n"
                          "operands: n tiles of one shape.\n"
                          "{axis}: the axis to scan.\n"
                          "{reverse}: 1: from the axis's end; 0 or absent: from its beginning.\n"
                          "result: n tiles of the operands' types.\n"
                          "Its region is like that of `reduce`. The methods compute running sums of 16-bit "
                          "floats in f32 and round each once; a user-defined scan rounds at every step.\n"
                          "C++: scan, Tile::cumsum, Tile::cumprod, Tile::cummax, Tile::cummin.",
                      .adjoint = adjoint_of_scan}};

// A tile reshaped so that all reduced axes are one. If they are adjacent no element moves.
struct Joined {
  Value* tile;
  int64_t axis;
};
Joined joined(Value* x, const std::vector<int64_t>& axes, const Location& at) {
  if (axes.size() == 1) return {x, axes[0]};
  Shape shape = x->type.shape;
  auto first = static_cast<size_t>(axes.empty() ? 0 : axes[0]);
  if (!axes.empty() && axes.back() - axes[0] + 1 != static_cast<int64_t>(axes.size())) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < x->type.rank(); ++i)
      if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i);
    first = order.size();
    order.insert(order.end(), axes.begin(), axes.end());
    for (size_t i = 0; i < order.size(); ++i) shape[i] = x->type.shape[static_cast<size_t>(order[i])];
    x = emit("permute", {x}, {{"axes", order}}, at);
  }
  const auto begin = shape.begin() + static_cast<ptrdiff_t>(first);
  const int64_t count = element_count(Shape(begin, begin + static_cast<ptrdiff_t>(axes.size())));
  shape.insert(shape.erase(begin, begin + static_cast<ptrdiff_t>(axes.size())), count);
  return {emit("reshape", {x}, {{"shape", shape}}, at), static_cast<int64_t>(first)};
}

Tile keep(Tile reduced, const Shape& from, const std::vector<int64_t>& axes, bool keepdims,
          const Location& at) {
  if (!keepdims) return reduced;
  Shape shape = from;
  for (int64_t axis : axes) shape[static_cast<size_t>(axis)] = 1;
  return reduced.reshape(shape, at);
}

Tile reduction(const Primitive& primitive, const char* name, Value* x, const Axes& axes, bool keepdims,
               const Location& at) {
  const std::vector<int64_t> normal = normal_axes(name, axes, x->type, at);
  if (normal.empty()) x = emit("reshape", {x}, {{"shape", Shape{1}}}, at);  // a scalar
  return keep(Tile(emit(primitive, {x}, {{"axes", normal.empty() ? std::vector<int64_t>{0} : normal}}, at)),
              x->type.shape, normal, keepdims, at);
}
Tile arg_reduction(const Primitive& primitive, const char* name, Value* x, const Axes& axes, bool keepdims,
                   const Location& at) {
  const std::vector<int64_t> normal = normal_axes(name, axes, x->type, at);
  const auto [tile, axis] = joined(x, normal, at);
  return keep(Tile(emit(primitive, {tile}, {{"axis", axis}}, at)), x->type.shape, normal, keepdims, at);
}

using Combine = Tracer::Combine;
Combine of_one(const std::function<Tile(Tile, Tile)>& combine) {
  return
      [&combine](std::vector<Tile> x, std::vector<Tile> y) { return std::vector<Tile>{combine(x[0], y[0])}; };
}

// Returns the tiles broadcast to one shape.
std::vector<Value*> unified(const char* operation, const std::vector<Operand>& tiles, const Location& at) {
  if (tiles.empty()) fail(at, ErrorKind::value, operation, ": got no tiles; pass at least one");
  std::vector<Value*> values;
  for (const Operand& tile : tiles) values.push_back(tile.any());
  Shape shape;
  for (const Value* value : values)
    shape = broadcast_shape(operation, Type::tile(value->type.dtype, shape), value->type, at);
  for (Value*& value : values) value = broadcast_to(operation, value, shape, at);
  return values;
}

std::vector<Tile> reduce_axes(const std::vector<Operand>& tiles, const Axes& axes, const Combine& combine,
                              bool keepdims, const Location& at) {
  std::vector<Value*> values = unified("reduce", tiles, at);
  const Type type = values[0]->type;
  const std::vector<int64_t> normal = normal_axes("reduce", axes, type, at);
  int64_t along = 0;
  for (Value*& value : values) {
    const auto [tile, axis] = joined(value, normal, at);
    value = tile, along = axis;
  }
  std::vector<Tile> results;
  for (Value* result : Tracer::current(at).combine(reduce_, values, combine, {{"axis", along}}, at))
    results.push_back(keep(Tile(result), type.shape, normal, keepdims, at));
  return results;
}
std::vector<Tile> scan_axis(const char* operation, const std::vector<Operand>& tiles, int axis,
                            const Combine& combine, bool reverse, const Location& at) {
  const std::vector<Value*> values = unified(operation, tiles, at);
  const int64_t along = normal_axis(operation, axis, values[0]->type, at);
  std::vector<Tile> results;
  for (Value* result : Tracer::current(at).combine(scan_, values, combine,
                                                   {{"axis", along}, {"reverse", int64_t{reverse}}}, at))
    results.emplace_back(result);
  return results;
}

// 16-bit floats are scanned in f32 and rounded once.
Tile running(const char* name, const char* step, Value* x, int axis, bool reverse, const Location& at) {
  const DType dtype = x->type.dtype;
  if (!dtypes::numbers.has(dtype))
    fail(at, ErrorKind::type, name, ": does not take ", dtype, "; cast with astype() first");
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
  const Tile wide = Tile(x).astype(narrow ? DType::f32 : dtype, at);
  const auto combine = [&](std::vector<Tile> sum, std::vector<Tile> next) {
    return std::vector<Tile>{Tile(emit(step, {sum[0].value(at), next[0].value(at)}, {}, at))};
  };
  return scan_axis(name, {Operand(wide, at)}, axis, combine, reverse, at)[0].astype(dtype, at);
}

}  // namespace

Tile reduce(Operand x, Axes axes, const std::function<Tile(Tile, Tile)>& combine, bool keepdims) {
  return reduce_axes({x}, axes, of_one(combine), keepdims, x.location)[0];
}
std::vector<Tile> reduce(const std::vector<Operand>& tiles, Axes axes, const CombineTiles& combine,
                         bool keepdims, Location location) {
  return reduce_axes(tiles, axes, combine, keepdims, location);
}
Tile scan(Operand x, int axis, const std::function<Tile(Tile, Tile)>& combine, bool reverse) {
  return scan_axis("scan", {x}, axis, of_one(combine), reverse, x.location)[0];
}
std::vector<Tile> scan(const std::vector<Operand>& tiles, int axis, const CombineTiles& combine, bool reverse,
                       Location location) {
  return scan_axis("scan", tiles, axis, combine, reverse, location);
}

#define METHOD(METHOD_NAME, PRIMITIVE, FORM)                                         \
  Tile Tile::METHOD_NAME(Axes axes, bool keepdims, Location location) const {        \
    return FORM(PRIMITIVE, #METHOD_NAME, value(location), axes, keepdims, location); \
  }
METHOD(sum, reduce_sum_, reduction)
METHOD(prod, reduce_prod_, reduction)
METHOD(max, reduce_max_, reduction)
METHOD(min, reduce_min_, reduction)
METHOD(any, reduce_any_, reduction)
METHOD(all, reduce_all_, reduction)
METHOD(argmax, argmax_, arg_reduction)
METHOD(argmin, argmin_, arg_reduction)
#undef METHOD

#define RUNNING(METHOD_NAME, STEP)                                                \
  Tile Tile::METHOD_NAME(int axis, bool reverse, Location location) const {       \
    return running(#METHOD_NAME, STEP, value(location), axis, reverse, location); \
  }
RUNNING(cumsum, "add")
RUNNING(cumprod, "mul")
RUNNING(cummax, "maximum")
RUNNING(cummin, "minimum")
#undef RUNNING

}  // namespace tile
