// Which float32 values end as 16 bits wherever they go: fast functions are exact enough for those.
#pragma once
#include <unordered_set>

#include "ir/op.h"

namespace tile {

class Precision {
 public:
  explicit Precision(const Function& function);
  // Returns true if the value is seen only after it is rounded to 16 bits.
  bool approximate(const Value* value) const;

 private:
  bool exact(const Value* value) const { return exact_.count(value) != 0; }
  bool asks_exact(const Op& op, size_t operand) const;

  std::unordered_set<const Value*> exact_;
};

}  // namespace tile
