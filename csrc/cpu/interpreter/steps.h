// The table functions that compute an elementwise op: one, or a cast and a rounding.
#pragma once
#include <vector>

#include "cpu/interpreter/tables.h"
#include "ir/op.h"

namespace tile::cpu {

struct StepFunction {
  std::string_view name;          // of the row; empty where it has none of its own
  const ChunkFunction* variants;  // by mask of operands that repeat
  Lane result;
};
// In order; each after the first takes the result before it. Empty: the lanes are the operand's own.
std::vector<StepFunction> step_functions(const Op& op);
// Returns true if the last function of step_functions only rounds to the result's dtype, as a store to memory
// does too.
bool ends_in_rounding(const Op& op);

}  // namespace tile::cpu
