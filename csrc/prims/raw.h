// Loads and stores at flat offsets from where an array begins: its extents and strides are not looked at.
#pragma once
#include "dsl/array.h"

namespace tile {

// The element `offset` elements behind the array's first, for every element of an integer tile; those whose
// mask is false are `pad` and are not read. Nothing else keeps an offset within the array's memory.
Tile load_offset(Array array, const Operand& offset, double pad = 0, Location location = Location::current());
Tile load_offset(Array array, const Operand& offset, const Tile& mask, double pad = 0,
                 Location location = Location::current());
// Writes value[i] (cast to the array's dtype) likewise. Two equal offsets: either value.
void store_offset(Array array, const Operand& offset, const Operand& value);
void store_offset(Array array, const Operand& offset, const Operand& value, const Tile& mask);

}  // namespace tile
