// Traversal of ops: visits nested ops, replaces values, and answers queries about values.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/op.h"

namespace tile {

// Visits the block's ops and those of nested regions in pre-order.
template <class Visit>
void walk(const Block& block, Visit&& visit) {
  for (const auto& op : block.ops) {
    visit(*op);
    for (const auto& region : op->regions) walk(*region, visit);
  }
}

using UseCounts = std::unordered_map<const Value*, int>;
UseCounts count_uses(const Block& block);  // includes nested regions

using ValueMap = std::unordered_map<Value*, Value*>;
// Replaces a value by the one that the map has for it, if any.
void replace(Value*& value, const ValueMap& replacements);
void replace_uses(Block& block, const ValueMap& replacements);  // follows chains a -> b -> c

// Returns the constant that defines a value: a constant op, or a broadcast of one.
std::optional<Constant> constant_of(const Value* value);

// Returns the array parameter that a chain of views refers to.
const Value* root_array(const Value* array);
// Returns true if the launch key says that some extent of the array does not fit i32.
bool is_wide_array(const Function& function, const Value* array);
// Returns true if both are views of one array at different constant indices of an axis, so that they are
// disjoint.
bool apart(const Value* a, const Value* b);

// The memory effects of an op and everything nested in it.
struct Effects {
  std::unordered_set<const Value*> reads, writes;  // root arrays
  bool barrier = false;                            // ordered with every access
  bool other = false;                              // print, assert: ordered with writes and each other
  bool any() const { return barrier || other || !reads.empty() || !writes.empty(); }
  bool conflicts(const Effects& later) const;  // true if the two must not be reordered
};
Effects effects_of(const Op& op);
// Returns true if the op may break or continue an enclosing loop, so that the following ops may not run.
bool has_jump(const Op& op);

bool defined_inside(const Value* value, const Block& block);  // in the block or nested in it

// Returns a deep copy of `op` for `function`. Operands are mapped through `map`, to which the results are
// added.
std::unique_ptr<Op> clone(const Op& op, Function& function, ValueMap& map);
Function clone(const Function& function);

}  // namespace tile
