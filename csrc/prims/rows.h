// Rows of arrays at computed indices along one axis, in vectors along the others.
#pragma once
#include <vector>

#include "dsl/array.h"

namespace tile {

// Returns the tile whose element (…, j, …) along `axis` is from row rows[j] of the array, where `rows` is an
// integer tile with one axis. Along the array's other axes, in their order, the tile begins at `start` and
// has `lengths` elements. Elements outside the array along any axis are `pad`.
Tile gather_rows(Array array, int axis, const Operand& rows, const std::vector<Operand>& start,
                 const Shape& lengths, double pad = 0, Location location = Location::current());
// Writes a tile (cast to the array's dtype) to such rows; elements outside are dropped. With two equal rows
// either one's elements are written.
void scatter_rows(Array array, int axis, const Operand& rows, const std::vector<Operand>& start,
                  const Operand& value);

}  // namespace tile
