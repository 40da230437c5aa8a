// Views of arrays: leading axes fixed, an axis sliced, axes permuted. No memory is moved.
#include <algorithm>

#include "dsl/array.h"
#include "dsl/tracer.h"
#include "prims/axes.h"
#include "prims/tangents.h"

namespace tile {
namespace {

void check_index(const Op& op, size_t operand) {
  if (!op.type(operand).is_scalar() || !is_integer(op.type(operand).dtype))
    fail(op, ErrorKind::type, "indices must be integer scalars, got ", op.type(operand));
}

std::vector<Type> infer_index(const Op& op) {
  int fixed = static_cast<int>(op.operands.size()) - 1;
  if (!op.type(0).is_array() || fixed < 1 || fixed > op.type(0).array_rank)
    fail(op, ErrorKind::value, fixed, " indices for ", op.type(0), "; give one for each leading axis to fix");
  for (size_t i = 1; i < op.operands.size(); ++i) check_index(op, i);
  return {Type::array(op.type(0).dtype, op.type(0).array_rank - fixed)};
}

std::vector<Type> infer_slice(const Op& op) {
  check_index(op, 1);
  check_index(op, 2);
  if (const int64_t axis = op.integer("axis"); axis < 0 || axis >= op.type(0).array_rank)
    fail(op, ErrorKind::value, "axis ", axis, " is out of range for ", op.type(0), "; it has ",
         op.type(0).array_rank, " axes");
  return {op.type(0)};
}

std::vector<Type> infer_permute(const Op& op) {
  std::vector<int64_t> sorted = op.integers("axes");
  std::sort(sorted.begin(), sorted.end());
  bool good = static_cast<int>(sorted.size()) == op.type(0).array_rank;
  for (size_t i = 0; good && i < sorted.size(); ++i) good = sorted[i] == static_cast<int64_t>(i);
  if (!good)
    fail(op, ErrorKind::value, "axes ", op.integers("axes"), " are no permutation of the axes of ",
         op.type(0), "; name each axis once");
  return {op.type(0)};
}

const Register index_{{.name = "index",
                       .views = true,
                       .tangent = linear_tangent,
                       .infer = infer_index,
                       .doc = "The array with its leading axes fixed at indices; an index outside yields an "
                              "array whose loads are all padding.\n"
                              "operands: array, an integer scalar for each fixed axis.\n"
                              "result: an array of the same dtype without the fixed axes.\n"
                              "C++: Array::operator[]."}};
const Register slice_{
    {.name = "slice",
     .operands = 3,
     .views = true,
     .tangent = linear_tangent,
     .infer = infer_slice,
     .doc = "The part start <= index < stop of one axis of an array.\n"
            "operands: array, start, stop: integer scalars, constant or computed at run time.\n"
            "{axis}: the axis to slice.\n"
            "{starts_inside}: 1 if a pass has proven that start is not negative; set by passes only.\n"
            "result: an array of the same dtype and rank; index 0 of the axis is `start`.\n"
            "Loads and stores clip at its ends, and at those of the array. start > stop gives "
            "an empty part; there is no check at run time.\n"
            "C++: Array::slice."}};
const Register permute_array_{{.name = "permute_array",
                               .operands = 1,
                               .views = true,
                               .tangent = linear_tangent,
                               .infer = infer_permute,
                               .doc = "An array with its axes in another order.\n"
                                      "operands: array.\n"
                                      "{axes}: for each axis of the result, the axis of the operand.\n"
                                      "result: an array of the same dtype and rank. No element is moved.\n"
                                      "C++: Array::permute."}};

Value* visible(Value* array, const Location& at) {
  Tracer::current(at).check_visible(array, "this Array view", at);
  return array;
}

}  // namespace

Array Array::operator[](std::initializer_list<Operand> indices) const {
  const Location& at = indices.begin()->location;
  std::vector<Value*> operands{visible(value_, at)};
  for (const Operand& index : indices) operands.push_back(index.any());
  return Array(emit(index_, std::move(operands), {}, at));
}

Array Array::slice(int axis, Operand start, Operand stop, Location location) const {
  int64_t normal = normal_axis("slice", axis, value_->type, location);
  return Array(
      emit(slice_, {visible(value_, location), start.any(), stop.any()}, {{"axis", normal}}, location));
}

Array Array::permute(std::vector<int> axes, Location location) const {
  std::vector<int64_t> normal;
  for (int axis : axes) normal.push_back(normal_axis("permute", axis, value_->type, location));
  return Array(emit(permute_array_, {visible(value_, location)}, {{"axes", normal}}, location));
}

}  // namespace tile
