// Sub-tiles of tiles: one taken out, one put in.
#pragma once
#include <vector>

#include "dsl/tile.h"

namespace tile {

// The sub-tile of `shape` at an index: its elements start at index * shape. The shape has an extent for each
// axis of x, which divides x's; {} gives one element as a scalar. An index is a number, which must be in
// range, or an integer scalar computed at run time, which is moved to the nearest sub-tile there is.
Tile extract(const Operand& x, const std::vector<Operand>& index, Shape shape);
// x with its sub-tile of the value's shape at an index replaced; a scalar replaces one element.
Tile insert(const Operand& x, const std::vector<Operand>& index, const Operand& value);

}  // namespace tile
