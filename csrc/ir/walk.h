// Traversal: visiting nested ops, replacing values, asking what a value is.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/op.h"

namespace tile {

// Pre-order over the block's ops and those of nested regions.
template <class Visit>
void walk(const Block& block, Visit&& visit) {
  for (const auto& op : block.ops) {
    visit(*op);
    for (const auto& region : op->regions) walk(*region, visit);
  }
}

using UseCounts = std::unordered_map<const Value*, int>;
UseCounts count_uses(const Block& block);  // nested regions included

using ValueMap = std::unordered_map<Value*, Value*>;
void replace_uses(Block& block, const ValueMap& replacements);  // follows chains a -> b -> c

// The constant behind a value: a constant op, or a broadcast of one.
std::optional<Constant> constant_of(const Value* value);

// The array parameter behind a chain of array views.
const Value* root_array(const Value* array);
// Returns true if the launch key says that some extent of the array does not fit i32.
bool is_wide_array(const Function& function, const Value* array);
// Returns true if two are views of one array at different constant indices of an axis: no element is in both.
bool apart(const Value* a, const Value* b);

// Memory summary of an op and everything nested in it.
struct Effects {
  std::unordered_set<const Value*> reads, writes;  // root arrays
  bool barrier = false;                            // orders against every access
  bool other = false;                              // print, assert: ordered with writes and each other
  bool any() const { return barrier || other || !reads.empty() || !writes.empty(); }
  bool conflicts(const Effects& later) const;  // the two may not be reordered
};
Effects effects_of(const Op& op);
// Returns true if it may break or continue an enclosing loop, so that the ops after it may not run.
bool has_jump(const Op& op);

bool defined_inside(const Value* value, const Block& block);  // in the block or nested in it

// A deep copy of `op` for `function`; operands go through `map`, which gains the results.
std::unique_ptr<Op> clone(const Op& op, Function& function, ValueMap& map);
Function clone(const Function& function);

}  // namespace tile
