// Elements of arrays at computed indices; those that others may touch at the same time: prims/atomics.h.
#pragma once
#include "dsl/array.h"

namespace tile {

// array[index[0], index[1], …] for every element of the (broadcast) integer index tiles; elements outside the
// array, and those whose mask is false, are `pad`.
Tile gather(Array array, std::initializer_list<Operand> index, double pad = 0,
            Location location = Location::current());
Tile gather(Array array, std::initializer_list<Operand> index, Tile mask, double pad = 0,
            Location location = Location::current());
// Writes value[i] to array[index[0][i], …]; elements outside are dropped. Two equal indices: either value.
// With a mask, which is broadcast too, only where it is true.
void scatter(Array array, std::initializer_list<Operand> index, Operand value);
void scatter(Array array, std::initializer_list<Operand> index, Operand value, const Tile& mask);

}  // namespace tile
