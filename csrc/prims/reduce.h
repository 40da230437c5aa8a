// Reductions and scans with a combine function of one's own; sum, max and the like are methods of Tile.
#pragma once
#include <functional>

#include "dsl/tile.h"

namespace tile {

// Reduces an axis with an associative function of two scalars; `identity` leaves any value as it is.
Tile reduce(Operand x, int axis, double identity, const std::function<Tile(Tile, Tile)>& combine,
            bool keepdims = false);
// Running combination along an axis, from its end where `reverse`.
Tile scan(Operand x, int axis, double identity, const std::function<Tile(Tile, Tile)>& combine,
          bool reverse = false);

}  // namespace tile
