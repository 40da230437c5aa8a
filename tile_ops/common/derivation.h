// Derivatives as the host side of an operator sees them.
#pragma once
#include "tile/op.h"

namespace tile {

// Returns true if kernels are differentiated, so that tiles and sums need twice the registers.
inline bool is_differentiated() { return Derivation::of_thread() != nullptr; }
// Returns true if launches are recorded, for the gradient of an operator.
inline bool is_recorded() {
  Derivation* const derivation = Derivation::of_thread();
  return derivation && derivation->record();
}

}  // namespace tile
