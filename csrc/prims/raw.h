// Loads and stores at flat offsets from an array's first element: its extents and strides are ignored.
#pragma once
#include "dsl/array.h"

namespace tile {

// Returns the elements at `offset`, in elements from the array's first, for every element of an integer tile;
// elements whose mask is false are `pad` and are not read. The kernel must keep offsets within the array's
// memory.
Tile load_offset(Array array, const Operand& offset, double pad = 0, Location location = Location::current());
Tile load_offset(Array array, const Operand& offset, const Tile& mask, double pad = 0,
                 Location location = Location::current());
// Writes value[i] (cast to the array's dtype) in the same way. With two equal offsets either value is
// written.
void store_offset(Array array, const Operand& offset, const Operand& value);
void store_offset(Array array, const Operand& offset, const Operand& value, const Tile& mask);

}  // namespace tile
