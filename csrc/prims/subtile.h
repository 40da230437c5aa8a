// extract and insert: read or replace a sub-tile of a tile.
#pragma once
#include <vector>

#include "dsl/tile.h"

namespace tile {

// Returns the sub-tile of `shape` at an index: its elements start at index * shape. The shape has an extent
// for each axis of x, which divides x's; {} returns one element as a scalar. An index is a constant, which
// must be in range, or an integer scalar that is computed at run time and clamped to the nearest sub-tile.
Tile extract(const Operand& x, const std::vector<Operand>& index, Shape shape);
// Returns x with the sub-tile of the value's shape at an index replaced; a scalar replaces one element.
Tile insert(const Operand& x, const std::vector<Operand>& index, const Operand& value);

}  // namespace tile
