// Follows an access to its array.
#include "cuda/async/copied_tile.h"

#include <algorithm>

#include "ir/walk.h"

namespace tile::cuda {
namespace {

// Follows a view to its parameter. Returns false for a slice.
bool follow_views(const Value* array, std::vector<int>& axes, std::vector<Value*>& fixed) {
  const Op* view = array->definition;
  if (!view) {
    for (int axis = 0; axis < array->type.array_rank; ++axis) axes.push_back(axis), fixed.push_back(nullptr);
    return true;
  }
  if (!follow_views(view->operands[0], axes, fixed)) return false;
  if (view->is("index")) {
    const auto count = static_cast<int>(view->operands.size()) - 1;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] < 0) continue;
      if (axes[i] < count)
        fixed[i] = view->operands[static_cast<size_t>(axes[i]) + 1], axes[i] = -1;
      else
        axes[i] -= count;
    }
    return true;
  }
  if (!view->is("permute_array")) return false;
  const auto& order = view->integers("axes");
  for (int& axis : axes)
    if (axis >= 0) axis = static_cast<int>(std::find(order.begin(), order.end(), axis) - order.begin());
  return true;
}

}  // namespace

bool CopiedTile::follow(const Function& function, const Op& of) {
  const auto& parameters = function.body().arguments;
  access = &of;
  parameter = static_cast<int>(std::find(parameters.begin(), parameters.end(), root_array(of.operands[0])) -
                               parameters.begin());
  return follow_views(of.operands[0], axes, fixed);
}

bool has_map(const ArrayFacts& facts) {
  return facts.unit >= 0 && facts.aligned && facts.small && !facts.wide && facts.forward;
}

int swizzle_of(int64_t width_bytes) {
  for (const int bytes : {128, 64, 32})
    if (width_bytes % bytes == 0) return bytes;
  return 0;
}

}  // namespace tile::cuda
