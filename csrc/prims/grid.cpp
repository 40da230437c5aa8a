// Block index and count, extents and strides of arrays: scalars that are known at launch.
#include "prims/grid.h"

#include "dsl/array.h"
#include "dsl/tracer.h"
#include "prims/axes.h"

namespace tile {
namespace {

std::vector<Type> infer_grid(const Op& op) {
  if (op.integer("axis") < 0 || op.integer("axis") > 2)
    fail(op, ErrorKind::value, "axis is ", op.integer("axis"), "; it must be 0, 1 or 2");
  return {Type::tile(DType::i32)};
}
void check_axis(const Op& op) {
  if (!op.type(0).is_array() || op.integer("axis") < 0 || op.integer("axis") >= op.type(0).array_rank)
    fail(op, ErrorKind::value, "axis ", op.integer("axis"), " is out of range for ", op.type(0));
}
std::vector<Type> infer_dim(const Op& op) {
  check_axis(op);
  const DType dtype = op.has("dtype") ? op.dtype("dtype") : DType::i32;
  if (dtype != DType::i32 && dtype != DType::i64)
    fail(op, ErrorKind::type, "dtype is ", dtype, "; it must be i32 or i64");
  return {Type::tile(dtype)};
}
std::vector<Type> infer_stride(const Op& op) {
  check_axis(op);
  return {Type::tile(DType::i64)};
}

const Register bid_{{.name = "bid",
                     .operands = 0,
                     .infer = infer_grid,
                     .doc = "The index of this block along a grid axis.\n"
                            "operands: none.\n"
                            "{axis}: 0, 1 or 2.\n"
                            "result: an i32 scalar, from 0 to num_blocks - 1.\n"
                            "C++: bid."}};
const Register num_blocks_{{.name = "num_blocks",
                            .operands = 0,
                            .infer = infer_grid,
                            .doc = "The number of blocks along a grid axis.\n"
                                   "operands: none.\n"
                                   "{axis}: 0, 1 or 2.\n"
                                   "result: an i32 scalar, at least 1.\n"
                                   "C++: num_blocks."}};
const Register dim_{{.name = "dim",
                     .operands = 1,
                     .views = true,
                     .infer = infer_dim,
                     .doc =
                         "The extent of an array's axis.\n"
                         "operands: array.\n"
                         "{axis}: an axis of the array; in the language negative axes count from the end.\n"
                         "{dtype}: i32 by default, or i64, which is needed for arrays with more than "
                         "2147483647 elements along an axis.\n"
                         "result: a scalar of this dtype. For a slice it is the slice's extent.\n"
                         "C++: Array::dim."}};
const Register stride_{
    {.name = "stride",
     .operands = 1,
     .views = true,
     .infer = infer_stride,
     .doc = "The distance between adjacent elements along an array's axis, in elements.\n"
            "operands: array.\n"
            "{axis}: an axis of the array; in the language negative axes count from the end.\n"
            "result: an i64 scalar; it may be 0 or negative.\n"
            "C++: Array::stride."}};

}  // namespace

Tile bid(int axis, Location location) { return Tile(emit(bid_, {}, {{"axis", int64_t{axis}}}, location)); }
Tile num_blocks(int axis, Location location) {
  return Tile(emit(num_blocks_, {}, {{"axis", int64_t{axis}}}, location));
}

Tile Array::dim(int axis, Location location) const {
  Attributes attributes{{"axis", normal_axis("dim", axis, value_->type, location)}};
  if (const DType dtype = Tracer::current(location).extent_dtype(); dtype != DType::i32)
    attributes.set("dtype", dtype);
  return Tile(emit(dim_, {value_}, std::move(attributes), location));
}
Tile Array::stride(int axis, Location location) const {
  return Tile(
      emit(stride_, {value_}, {{"axis", normal_axis("stride", axis, value_->type, location)}}, location));
}

}  // namespace tile
