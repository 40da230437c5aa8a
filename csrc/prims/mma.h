// Matrix products of tiles.
#pragma once
#include "dsl/tile.h"

namespace tile {

// x @ y + acc: [m,k] @ [k,n], or batched [b,m,k] @ [b,k,n]. acc: f32 for f16, bf16, f32; f64 for f64; i32 for
// int8.
Tile mma(Operand x, Operand y, Operand acc);

}  // namespace tile
