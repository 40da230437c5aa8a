// Reads the facts of array parameters and derives those of views.
#include "cuda/array_facts.h"

#include <algorithm>

#include "ir/walk.h"
#include "support/text.h"

namespace tile::cuda {

KernelArrays::KernelArrays(const Function& function) {
  const auto& parameters = function.body().arguments;
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto fact = [&](const char* name, int64_t otherwise) {
      const Attribute* found = function.attributes().find(str("array.", i, ".", name));
      return found ? std::get<int64_t>(*found) : otherwise;
    };
    parameters_[parameters[i]] = {.unit = static_cast<int>(fact("unit", -1)),
                                  .aligned = fact("aligned", 0) != 0,
                                  .words = fact("words", 0) != 0,
                                  .whole_vectors = fact("whole", 0) != 0,
                                  .small = fact("small", 0) != 0,
                                  .wide = fact("wide", 0) != 0,
                                  .forward = fact("forward", 0) != 0,
                                  .constant = true};
  }
  walk(function.body(), [&](const Op& op) {
    if (op.traits().writes) parameters_.at(root_array(op.operands[0])).constant = false;
  });
}

ArrayFacts KernelArrays::facts(const Value* array) const {
  const Op* view = array->definition;
  if (!view) return parameters_.at(array);
  ArrayFacts facts = this->facts(view->operands[0]);
  // A slice's indices may be large even if the array's are small.
  if (view->is("slice")) {
    facts.small = false;
    const DType start = view->type(1).dtype;
    facts.wide = facts.wide || info(start).bits == 64 || start == DType::u32;
  }
  if (facts.unit < 0) return facts;
  if (view->is("index")) {
    facts.unit -= static_cast<int>(view->operands.size()) - 1;
    if (facts.unit < 0)
      facts = {
          .small = facts.small, .wide = facts.wide, .forward = facts.forward, .constant = facts.constant};
  } else if (view->is("slice")) {
    if (facts.unit == view->integer("axis")) facts.aligned = facts.words = facts.whole_vectors = false;
  } else if (view->is("permute_array")) {
    const auto& axes = view->integers("axes");
    facts.unit = static_cast<int>(std::find(axes.begin(), axes.end(), facts.unit) - axes.begin());
  }
  return facts;
}

int most_together(const ArrayFacts& facts, DType dtype) {
  if (facts.unit < 0) return 1;
  return std::max(1, (facts.aligned ? 16 : facts.words ? 4 : 0) / info(dtype).bytes);
}

int vector_width(const ArrayFacts& facts, DType dtype, const Shape& shape, const Shape& steps) {
  int width = most_together(facts, dtype);
  if (width == 1) return 1;
  const auto unit = static_cast<size_t>(facts.unit);
  while (width > 1 && (shape[unit] % width != 0 || steps[unit] % width != 0)) width /= 2;
  return width;
}

}  // namespace tile::cuda
