// detach: a tile that derivatives take for a constant.
#pragma once
#include "dsl/tile.h"

namespace tile {

// Returns x, which derivatives take for a constant: its tangent and its gradient are zero. For numbers that
// the result does not depend on but for rounding, such as the maximum that a softmax subtracts. Costs
// nothing.
Tile detach(const Operand& x);

}  // namespace tile
