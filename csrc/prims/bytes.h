// Conversions between tiles and the bytes that memory would hold.
#pragma once
#include "dsl/tile.h"

namespace tile {

// Returns the elements in row-major order as bytes, u8 along one axis, little-endian. Not for bool.
Tile pack_to_bytes(const Operand& x);
// The inverse. `bytes` is u8 along one axis, whose extent is a multiple of the dtype's bytes.
Tile unpack_from_bytes(const Operand& bytes, DType dtype);

}  // namespace tile
