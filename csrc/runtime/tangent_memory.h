// The memory of tangents during an operator's forward mode: each launch of the thread then also computes
// tangents.
#pragma once
#include "runtime/argument.h"
#include "runtime/derivation.h"

namespace tile {

class TangentMemory : public Derivation {
 public:
  // Returns the array's tangents, which lie like the array in another memory, or none. If `make`, an array
  // that has none is given zeros.
  virtual std::optional<ArrayArgument> tangent(const ArrayArgument& array, bool make) = 0;

  TangentMemory* tangents() final { return this; }
  [[noreturn]] void refuse(std::string_view what) const final;
};

}  // namespace tile
