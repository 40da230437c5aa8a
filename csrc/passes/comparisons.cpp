// The tables of comparisons and tile accesses.
#include "passes/comparisons.h"

namespace tile {
namespace {

const Comparison comparisons[] = {
    {"lt", -1, 1, false}, {"le", -1, 0, true}, {"gt", 1, 1, false},
    {"ge", 1, 0, true},   {"eq", 0, 0, true},  {"ne", 0, 0, false},
};
const Access accesses[] = {{"load", 1}, {"store", 2}, {"add_tile", 2}};

Linear scaled(const Linear& x, const Linear& y, int sign, int64_t offset) {
  Linear form;
  form.add(x, sign);
  form.add(y, -sign);
  form.low -= offset;
  form.high -= offset;
  return form;
}

}  // namespace

std::vector<Linear> Comparison::forms(const Linear& x, const Linear& y, bool outcome) const {
  if (sign == 0) {
    if (outcome != holds_if_equal) return {scaled(x, y, 1, 1), scaled(x, y, -1, 1)};
    Linear gap = scaled(x, y, 1, 0);
    return gap.terms.empty() && gap.low == 0 && gap.high == 0 ? std::vector<Linear>{gap}
                                                              : std::vector<Linear>{};
  }
  return {outcome ? scaled(x, y, sign, offset) : scaled(x, y, -sign, 1 - offset)};
}

const Comparison* find_comparison(std::string_view primitive) {
  for (const Comparison& row : comparisons)
    if (row.primitive == primitive) return &row;
  return nullptr;
}

std::vector<std::optional<Linear>> Access::forms(const Op& op, Bounds& bounds) const {
  const Shape& shape = first_index == 1 ? op.result()->type.shape : op.type(1).shape;
  const std::vector<int64_t>& steps = op.integers("steps");
  std::vector<std::optional<Linear>> forms;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    std::optional<Linear> index = bounds.linear(op.operands[first_index + axis]);
    forms.push_back(index);  // index >= 0
    if (!index) continue;
    Linear rest = bounds.extent(op.operands[0], static_cast<int64_t>(axis));
    rest.add(*index, -steps[axis]);
    rest.low -= shape[axis];
    rest.high -= shape[axis];
    forms.push_back(rest);  // index * step + shape <= extent
  }
  // A view with an index outside the array is empty. Nothing is known about slices.
  for (Value* array = op.operands[0]; array->definition; array = array->definition->operands[0]) {
    const Op& view = *array->definition;
    if (view.is("permute_array")) continue;
    if (!view.is("index")) return {std::nullopt};
    for (size_t axis = 0; axis + 1 < view.operands.size(); ++axis) {
      std::optional<Linear> index = bounds.linear(view.operands[axis + 1]);
      forms.push_back(index);
      if (!index) continue;
      Linear rest = bounds.extent(view.operands[0], static_cast<int64_t>(axis));
      rest.add(*index, -1);
      --rest.low, --rest.high;
      forms.push_back(rest);
    }
  }
  return forms;
}

const Access* find_access(std::string_view primitive) {
  for (const Access& row : accesses)
    if (row.primitive == primitive) return &row;
  return nullptr;
}

}  // namespace tile
