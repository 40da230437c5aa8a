// Forward mode as a choice of tiles sees it.
#pragma once
#include "tile/op.h"

namespace tile {

// Returns true if kernels also compute tangents, so that tiles and sums need twice the registers.
inline bool computes_tangents() { return Derivation::of_thread() != nullptr; }

}  // namespace tile
