// Matrix products of tiles.
#pragma once
#include "dsl/tile.h"

namespace tile {

// Returns x @ y + acc: [m,k] @ [k,n], or batched [b,m,k] @ [b,k,n], where an operand with 2 axes, or with a
// batch of 1, is used for all of acc's batch. acc is f32 for f16, bf16, tf32, f32 and for f8e4m3 with f8e5m2;
// f64 for f64; i32 for i8 with u8. float32 is exact; rounded to tf32 (`x.astype(tf32)`) it uses a GPU's
// tensor cores. The tensor cores of some chips (sm_89, sm_120) may add products of f8 in fewer bits than f32
// has.
Tile mma(Operand x, Operand y, Operand acc);

// Returns the sum over k of x[i,k] xs[i,k/B] y[k,j] ys[k/B,j], plus acc. x and y are f8e4m3 or f8e5m2 as
// above, acc is f32, and each B elements along k have one scale, whose shape determines B (OCP Microscaling:
// B = 32). Scales are u8 with the bits of e8m0: 2^(bits - 127), and 255 is NaN. Scaled elements are exact
// unless they are below 2^-126; they are multiplied as bf16, on tensor cores too.
Tile mma_scaled(Operand x, Operand x_scale, Operand y, Operand y_scale, Operand acc);

}  // namespace tile
