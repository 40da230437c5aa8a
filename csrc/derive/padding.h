// Values that are finite numbers in padding: behind the edge of an array, where a load gives its pad.
#pragma once
#include <unordered_set>

#include "ir/op.h"

namespace tile {

// Results in padding are not stored, so that their gradients are 0. A derivative that is infinite or NaN
// there makes NaN of that, which a sum over the tile would spread to gradients inside the arrays.
class FinitePadding {
 public:
  explicit FinitePadding(const Function& kernel);
  // Returns true if the value is finite in padding, provided that values inside the arrays are.
  bool is_finite(const Value* value) const { return !others_.contains(value); }

 private:
  void visit(const Block& block);
  void mark(const Value* value);
  bool has_finite_operands(const Op& op, size_t first = 0) const;
  bool is_finite_op(const Op& op) const;

  std::unordered_set<const Value*> others_;
  bool changed_ = false;
};

}  // namespace tile
