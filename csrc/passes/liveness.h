// Liveness: the ops and values that effects, and further values that are named, need.
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/op.h"

namespace tile {

// Returns the loop that a break or continue belongs to.
Op* loop_around(const Op& jump);

class Liveness {
 public:
  // block: a function's body, or a block that belongs to no op yet.
  explicit Liveness(const Block& block, const std::vector<Value*>& needed = {});

  bool live(const Op& op) const { return ops_.count(&op); }
  bool live(const Value* value) const { return values_.count(value); }

 private:
  void need(Value* value);
  void need(Op& op);
  void follow(const Value& value);
  void slot(Op& op, size_t i);

  std::unordered_set<const Op*> ops_;
  std::unordered_set<const Value*> values_;
  std::vector<Value*> work_;
  std::unordered_map<const Op*, std::vector<Op*>> jumps_;
};

}  // namespace tile
