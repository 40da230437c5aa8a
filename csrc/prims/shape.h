// Making tiles and changing their shape.
#pragma once
#include "dsl/tile.h"

namespace tile {

// 0, 1, …, size-1 along the only axis.
Tile arange(int64_t size, DType dtype = DType::i32, Location location = Location::current());
// start, start + step, …: start + i * step, computed in that dtype; scalars, known now or at run time.
Tile arange(int64_t size, DType dtype, const Operand& start, const Operand& step = Operand(1),
            Location location = Location::current());
// A tile of one value; a Tile value is a scalar of that dtype.
Tile full(Shape shape, Operand value, DType dtype, Location location = Location::current());
Tile zeros(Shape shape, DType dtype, Location location = Location::current());
Tile ones(Shape shape, DType dtype, Location location = Location::current());
// Two tiles joined along an axis.
Tile cat(Operand x, Operand y, int axis);

}  // namespace tile
