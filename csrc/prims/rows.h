// Rows of arrays at computed indices along one axis, in vectors along the others.
#pragma once
#include <vector>

#include "dsl/array.h"

namespace tile {

// The tile whose element (…, j, …) along `axis` comes from row rows[j] of the array, `rows` an integer tile
// of one axis; along the array's other axes, in their order, it begins at `start` and has `lengths` elements.
// Elements outside the array along any axis are `pad`.
Tile gather_rows(Array array, int axis, const Operand& rows, const std::vector<Operand>& start,
                 const Shape& lengths, double pad = 0, Location location = Location::current());
// Writes a tile (cast to the array's dtype) to such rows; elements outside are dropped. Two equal rows:
// either's elements.
void scatter_rows(Array array, int axis, const Operand& rows, const std::vector<Operand>& start,
                  const Operand& value);

}  // namespace tile
