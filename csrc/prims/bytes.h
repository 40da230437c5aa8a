// Tiles as the bytes that memory would hold, and back.
#pragma once
#include "dsl/tile.h"

namespace tile {

// The elements in row-major order as bytes, u8 along one axis, of each element the lowest first. Not of bool.
Tile pack_to_bytes(const Operand& x);
// The inverse, of u8 along one axis, whose extent the dtype's bytes divide.
Tile unpack_from_bytes(const Operand& bytes, DType dtype);

}  // namespace tile
