// detach: a tile that derivatives take for a constant.
#pragma once
#include "dsl/tile.h"

namespace tile {

// Returns x, which derivatives take for a constant. Serves numbers that the result depends on only by
// rounding, such as the maximum that a softmax subtracts. It costs nothing.
Tile detach(const Operand& x);

}  // namespace tile
