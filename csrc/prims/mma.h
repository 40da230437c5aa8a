// Matrix products of tiles.
#pragma once
#include "dsl/tile.h"

namespace tile {

// x @ y + acc: [m,k] @ [k,n], or batched [b,m,k] @ [b,k,n]. acc: f32 for f16, bf16, tf32, f32 and f8e4m3 with
// f8e5m2; f64 for f64; i32 for i8 with u8. float32 is exact; rounded to tf32 (`x.astype(tf32)`) a GPU
// multiplies it on tensor cores. Those of some chips (sm_89, sm_120) may add products of f8 in fewer bits
// than f32 has.
Tile mma(Operand x, Operand y, Operand acc);

}  // namespace tile
