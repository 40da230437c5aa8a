// Finds float32 values that are always rounded to 16 bits in the end: fast functions are accurate enough for
// them.
#pragma once
#include <unordered_set>

#include "ir/op.h"

namespace tile {

class Precision {
 public:
  explicit Precision(const Function& function);
  // Returns true if the value is only used after rounding to 16 bits.
  bool approximate(const Value* value) const;

 private:
  bool exact(const Value* value) const { return exact_.count(value) != 0; }
  bool asks_exact(const Op& op, size_t operand) const;

  std::unordered_set<const Value*> exact_;
};

}  // namespace tile
