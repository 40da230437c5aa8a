// Collects the arrays that a function's operations access.
#include "ir/touched.h"

#include <algorithm>

#include "ir/walk.h"

namespace tile {

Touched touched_parameters(const Function& function) {
  std::unordered_set<const Value*> written, read, picked;
  for (const auto& op : function.body().ops) {
    Effects effects = effects_of(*op);
    written.merge(effects.writes);
    read.merge(effects.reads);
  }
  walk(function.body(), [&](const Op& op) {
    if (op.traits().picks) picked.insert(root_array(op.operands[0]));
  });
  Touched touched;
  const auto& parameters = function.body().arguments;
  for (size_t i = 0; i < std::min<size_t>(parameters.size(), 64); ++i) {
    touched.written |= uint64_t{written.count(parameters[i])} << i;
    touched.read |= uint64_t{read.count(parameters[i])} << i;
    touched.picked |= uint64_t{picked.count(parameters[i])} << i;
  }
  return touched;
}

}  // namespace tile
