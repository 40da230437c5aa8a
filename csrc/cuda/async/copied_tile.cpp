// Follows an access to its array.
#include "cuda/async/copied_tile.h"

#include <algorithm>

#include "ir/walk.h"
#include "support/text.h"

namespace tile::cuda {
namespace {

// Follows a view to its parameter. Returns false for more than one slice.
bool follow_views(const Value* array, CopiedTile& to) {
  const Op* view = array->definition;
  if (!view) {
    for (int axis = 0; axis < array->type.array_rank; ++axis)
      to.axes.push_back(axis), to.fixed.push_back(nullptr);
    return true;
  }
  if (!follow_views(view->operands[0], to)) return false;
  if (view->is("index")) {
    const auto count = static_cast<int>(view->operands.size()) - 1;
    for (size_t i = 0; i < to.axes.size(); ++i) {
      if (to.axes[i] < 0) continue;
      if (to.axes[i] < count)
        to.fixed[i] = view->operands[static_cast<size_t>(to.axes[i]) + 1], to.axes[i] = -1;
      else
        to.axes[i] -= count;
    }
    return true;
  }
  if (view->is("slice")) {
    if (to.sliced >= 0) return to.why_not = "a slice of a slice", false;
    const auto axis = std::find(to.axes.begin(), to.axes.end(), static_cast<int>(view->integer("axis")));
    to.sliced = static_cast<int>(axis - to.axes.begin());
    to.start = view->operands[1], to.stop = view->operands[2];
    if (!view->has("starts_inside"))
      return to.why_not = "a slice that may begin before its array; let it begin at max(start, 0)", false;
    return true;
  }
  if (!view->is("permute_array")) return to.why_not = str("a view by ", view->name()), false;
  const auto& order = view->integers("axes");
  for (int& axis : to.axes)
    if (axis >= 0) axis = static_cast<int>(std::find(order.begin(), order.end(), axis) - order.begin());
  return true;
}

bool is_zero(const Value* index) {
  const auto constant = index ? constant_of(index) : std::nullopt;
  return constant && constant->integer == 0;
}

}  // namespace

bool CopiedTile::follow(const Function& function, const Op& of) {
  const auto& parameters = function.body().arguments;
  access = &of;
  parameter = static_cast<int>(std::find(parameters.begin(), parameters.end(), root_array(of.operands[0])) -
                               parameters.begin());
  if (!follow_views(of.operands[0], *this)) return false;
  // The indices are removed with the views once the copies have other operands; maps are made after that.
  for (const Value* index : fixed) at_first.push_back(is_zero(index));
  if (sliced >= 0) {
    const auto axis = static_cast<size_t>(sliced);
    if (axes[axis] < 0) return why_not = "an index of a slice", false;
    // A tile before the first one would begin before the slice and end in it.
    const auto own = static_cast<size_t>(axes[axis]);
    const Shape& shape = (of.results.empty() ? of.type(1) : of.results[0]->type).shape;
    if (shape[own] > of.integers("steps")[own]) return why_not = "a slice whose tiles overlap", false;
  }
  return true;
}

size_t CopiedTile::dimensions() const {
  size_t count = sliced < 0 ? 0 : TensorMapSpec::slice_dimensions;
  for (size_t axis = 0; axis < axes.size(); ++axis) count += !leaves_out(axis);
  return count;
}

TensorMapSpec CopiedTile::map(int unit) const {
  std::vector<int> box;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const bool is_unit = static_cast<int>(axis) == unit;
    const int fixed_box = leaves_out(axis) ? 0 : 1;
    box.push_back(is_unit          ? static_cast<int>(layout.panel)
                  : axes[axis] < 0 ? fixed_box
                                   : static_cast<int>(layout.rows));
  }
  return {.parameter = parameter,
          .unit = unit,
          .box = std::move(box),
          .swizzle = layout.swizzle,
          .rounds = rounds,
          .sliced = sliced};
}

bool has_map(const KernelArrays& arrays, const Value* array) {
  const ArrayFacts view = arrays.facts(array), whole = arrays.facts(root_array(array));
  return view.unit >= 0 && view.aligned && view.forward && whole.small && !whole.wide;
}

int swizzle_of(int64_t width_bytes) {
  for (const int bytes : {128, 64, 32})
    if (width_bytes % bytes == 0) return bytes;
  return 0;
}

}  // namespace tile::cuda
