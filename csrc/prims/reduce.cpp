// Reductions of an axis: the named ones, arg reductions, and those with a combine region; scans.
#include "prims/reduce.h"

#include "dsl/tracer.h"
#include "prims/axes.h"

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
      fail(op, ErrorKind::value, "its region holds ", inner->name(), "; only arithmetic may stand in it");
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

#define REDUCTION(NAME, DTYPES, DOC)                                                              \
  const Register NAME##_ {                                                                        \
    { .name = #NAME, .operands = 1, .dtypes = dtypes::DTYPES, .infer = infer_reduce, .doc = DOC } \
  }
REDUCTION(reduce_sum, numbers,
          "Sum over axes, in any order; 16-bit floats are summed in f32 and rounded once.");
REDUCTION(reduce_prod, numbers, "Product over axes, in any order.");
REDUCTION(reduce_max, numbers, "Largest element over axes; NaN is skipped unless all are.");
REDUCTION(reduce_min, numbers, "Smallest element over axes; NaN is skipped unless all are.");
REDUCTION(reduce_any, boolean, "True where any element over the axes is.");
REDUCTION(reduce_all, boolean, "True where all elements over the axes are.");
#undef REDUCTION

#define INDEX_OF(NAME, WHICH)                                                                       \
  const Register NAME##_ {                                                                          \
    {                                                                                               \
      .name = #NAME, .operands = 1, .dtypes = dtypes::numbers, .infer = infer_arg,                  \
      .doc = "Index of the " WHICH " element along an axis, i32; the first of equals, NaN skipped." \
    }                                                                                               \
  }
INDEX_OF(argmax, "largest");
INDEX_OF(argmin, "smallest");
#undef INDEX_OF

const Register reduce_{{.name = "reduce",
                        .regions = 1,
                        .dtypes = dtypes::arithmetic,
                        .infer = infer_reduce_region,
                        .doc = "Reduces an axis of n tiles with an associative combine region."}};
const Register scan_{
    {.name = "scan",
     .regions = 1,
     .dtypes = dtypes::arithmetic,
     .infer = infer_scan,
     .doc = "Inclusive running combination along an axis of n tiles, from its end where `reverse`."}};

Tile keep(Tile reduced, const Shape& from, int64_t axis, bool keepdims, const Location& at) {
  if (!keepdims) return reduced;
  Shape shape = from;
  shape[static_cast<size_t>(axis)] = 1;
  return reduced.reshape(shape, at);
}

Tile reduction(const Primitive& primitive, const char* name, Value* x, int axis, bool keepdims,
               const Location& at) {
  int64_t normal = normal_axis(name, axis, x->type, at);
  Tile reduced(emit(primitive, {x}, {{"axes", std::vector<int64_t>{normal}}}, at));
  return keep(reduced, x->type.shape, normal, keepdims, at);
}
Tile arg_reduction(const Primitive& primitive, const char* name, Value* x, int axis, bool keepdims,
                   const Location& at) {
  int64_t normal = normal_axis(name, axis, x->type, at);
  return keep(Tile(emit(primitive, {x}, {{"axis", normal}}, at)), x->type.shape, normal, keepdims, at);
}

Value* combine_axis(const Primitive& primitive, const Operand& x, int64_t axis, double identity, bool reverse,
                    const std::function<Tile(Tile, Tile)>& combine) {
  Value* value = x.any();
  Constant start = Constant::of(value->type.dtype, identity);
  return Tracer::current(x.location)
      .combine(primitive, value, combine,
               {{"axis", axis}, {"identity", start.attribute()}, {"reverse", int64_t{reverse}}}, x.location);
}

}  // namespace

Tile reduce(Operand x, int axis, double identity, const std::function<Tile(Tile, Tile)>& combine,
            bool keepdims) {
  Type type = x.any()->type;
  int64_t normal = normal_axis("reduce", axis, type, x.location);
  return keep(Tile(combine_axis(reduce_, x, normal, identity, false, combine)), type.shape, normal, keepdims,
              x.location);
}
Tile scan(Operand x, int axis, double identity, const std::function<Tile(Tile, Tile)>& combine,
          bool reverse) {
  int64_t normal = normal_axis("scan", axis, x.any()->type, x.location);
  return Tile(combine_axis(scan_, x, normal, identity, reverse, combine));
}

#define METHOD(METHOD_NAME, PRIMITIVE, FORM)                                         \
  Tile Tile::METHOD_NAME(int axis, bool keepdims, Location location) const {         \
    return FORM(PRIMITIVE, #METHOD_NAME, value(location), axis, keepdims, location); \
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

}  // namespace tile
