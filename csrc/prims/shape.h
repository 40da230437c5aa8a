// Functions that create tiles and change their shape.
#pragma once
#include "dsl/tile.h"

namespace tile {

// Returns 0, 1, …, size-1 along the only axis.
Tile arange(int64_t size, DType dtype = DType::i32, Location location = Location::current());
// Returns start, start + step, …: start + i * step, computed in the dtype. The scalars may be constants or
// run-time values.
Tile arange(int64_t size, DType dtype, const Operand& start, const Operand& step = Operand(1),
            Location location = Location::current());
// Returns a tile filled with one value; a Tile value is a scalar of that dtype.
Tile full(Shape shape, Operand value, DType dtype, Location location = Location::current());
Tile zeros(Shape shape, DType dtype, Location location = Location::current());
Tile ones(Shape shape, DType dtype, Location location = Location::current());
// Concatenates two tiles along an axis.
Tile cat(Operand x, Operand y, int axis);

}  // namespace tile
