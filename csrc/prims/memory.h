// gather and scatter: elements of arrays at computed indices. For elements that other blocks may access at
// the same time see prims/atomics.h.
#pragma once
#include "dsl/array.h"

namespace tile {

// Returns array[index[0], index[1], …] for every element of the (broadcast) integer index tiles; elements
// outside the array, and those whose mask is false, are `pad`.
Tile gather(Array array, std::initializer_list<Operand> index, double pad = 0,
            Location location = Location::current());
Tile gather(Array array, const std::vector<Operand>& index, double pad = 0,
            Location location = Location::current());
Tile gather(Array array, std::initializer_list<Operand> index, Tile mask, double pad = 0,
            Location location = Location::current());
// Writes value[i] to array[index[0][i], …]; elements outside are dropped. With two equal indices either value
// is written. With a mask, which is broadcast too, only elements whose mask is true are written.
void scatter(Array array, std::initializer_list<Operand> index, Operand value);
void scatter(Array array, std::initializer_list<Operand> index, Operand value, const Tile& mask);

}  // namespace tile
