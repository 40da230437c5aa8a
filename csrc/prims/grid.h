// A block's position in the grid.
#pragma once
#include "dsl/tile.h"

namespace tile {

Tile bid(int axis, Location location = Location::current());  // index of this block, i32; axis 0, 1 or 2
Tile num_blocks(int axis, Location location = Location::current());  // blocks along an axis, i32

}  // namespace tile
