// The facts of an array parameter, and what views leave of them.
#include "cuda/array_facts.h"

#include <algorithm>

#include "ir/walk.h"
#include "support/text.h"

namespace tile::cuda {
namespace {

ArrayFacts of_parameter(const Function& function, const Value* array) {
  const auto& parameters = function.body().arguments;
  const auto number = std::find(parameters.begin(), parameters.end(), array) - parameters.begin();
  auto fact = [&](const char* name, int64_t otherwise) {
    const Attribute* found = function.attributes().find(str("array.", number, ".", name));
    return found ? std::get<int64_t>(*found) : otherwise;
  };
  ArrayFacts facts;
  facts.unit = static_cast<int>(fact("unit", -1));
  facts.aligned = fact("aligned", 0) != 0;
  facts.whole = fact("whole", 0) != 0;
  facts.parameter = array;
  facts.constant = true;
  walk(function.body(), [&](const Op& op) {
    if (op.traits().writes && root_array(op.operands[0]) == array) facts.constant = false;
  });
  return facts;
}

}  // namespace

ArrayFacts array_facts(const Function& function, const Value* array) {
  const Op* view = array->definition;
  if (!view) return of_parameter(function, array);
  ArrayFacts facts = array_facts(function, view->operands[0]);
  if (facts.unit < 0) return facts;
  if (view->is("index")) {
    facts.unit -= static_cast<int>(view->operands.size()) - 1;
    if (facts.unit < 0) facts = {.constant = facts.constant, .parameter = facts.parameter};
  } else if (view->is("slice")) {
    if (facts.unit == view->integer("axis")) facts.aligned = facts.whole = false;
  } else if (view->is("permute_array")) {
    const auto& axes = view->integers("axes");
    facts.unit = static_cast<int>(std::find(axes.begin(), axes.end(), facts.unit) - axes.begin());
  }
  return facts;
}

int vector_width(const ArrayFacts& facts, DType dtype, const Shape& shape, const Shape& steps) {
  if (facts.unit < 0 || !facts.aligned) return 1;
  const auto unit = static_cast<size_t>(facts.unit);
  int width = 16 / info(dtype).bytes;
  while (width > 1 && (shape[unit] % width != 0 || steps[unit] % width != 0)) width /= 2;
  return width;
}

}  // namespace tile::cuda
