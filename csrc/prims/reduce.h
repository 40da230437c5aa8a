// Reductions and scans with a user-defined combine function; sum, max, cumsum and similar ones are methods of
// Tile.
#pragma once
#include <functional>
#include <vector>

#include "dsl/tile.h"

namespace tile {

// Combines n tiles at once: n accumulated scalars and n new ones give n.
using CombineTiles = std::function<std::vector<Tile>(std::vector<Tile>, std::vector<Tile>)>;

// Reduces axes (all axes if none is named) with an associative function of two scalars. Elements are combined
// in row-major order of these axes, so the function need not commute.
Tile reduce(Operand x, Axes axes, const std::function<Tile(Tile, Tile)>& combine, bool keepdims = false);
// The same for several tiles, which are broadcast to one shape, such as a value and its index, or a mean and
// a variance.
std::vector<Tile> reduce(const std::vector<Operand>& tiles, Axes axes, const CombineTiles& combine,
                         bool keepdims = false, Location location = Location::current());
// Running combination along an axis, from its end if `reverse`.
Tile scan(Operand x, int axis, const std::function<Tile(Tile, Tile)>& combine, bool reverse = false);
std::vector<Tile> scan(const std::vector<Operand>& tiles, int axis, const CombineTiles& combine,
                       bool reverse = false, Location location = Location::current());

}  // namespace tile
