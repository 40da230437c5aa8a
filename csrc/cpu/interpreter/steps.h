// The table functions that compute an elementwise op: one function, or a cast and a rounding.
#pragma once
#include <vector>

#include "cpu/interpreter/tables.h"
#include "ir/op.h"

namespace tile::cpu {

struct StepFunction {
  std::string_view name;          // the row's name; empty if it is not an elementwise row
  const ChunkFunction* variants;  // by mask of operands that repeat
  Lane result;
};
// Returns the functions in order; each after the first takes the previous result. Empty if the lanes are the
// operand's.
std::vector<StepFunction> step_functions(const Op& op);
// Returns true if the last step function only rounds to the result's dtype, which a store to memory does as
// well.
bool ends_in_rounding(const Op& op);

}  // namespace tile::cpu
