// Random numbers with Philox4x32-10: a function of a seed and of each element's number, without state.
#pragma once
#include "dsl/tile.h"

namespace tile {

// Returns random bits that depend only on (seed, stream, number of the element): they are the same on every
// target and for every division of a tensor into tiles.
//   shape   of the result
//   seed    integer scalar, or a tile that broadcasts to the shape: Philox's key
//   offset  integer scalar: the elements are numbered offset, offset + 1, … in row-major order; or an integer
//           tile of the shape: each element's own number. Numbers wrap at 2^64
//   dtype   u32 or u64
//   stream  integer, like seed: draws with the same seed and number in different streams are independent
// u32: element n is word n % 4 of Philox's block n / 4; u64: words 2n and 2n + 1, the first one low. The
// block's counter is its number in the low 64 bits and `stream` in the high ones. Integers count modulo 2^64.
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
Tile random_bits(Shape shape, Operand seed, Operand offset, DType dtype = DType::u32,
                 Operand stream = Operand(0));

// Returns uniform numbers in [0, 1): the highest bits of random_bits, as many as the dtype's significand has,
// so that every value is exact and none is 1. f16, bf16 and f32 use u32 words (11, 8 and 24 bits), f64 uses
// u64 words (53 bits).
Tile uniform(Shape shape, Operand seed, Operand offset, DType dtype = DType::f32,
             Operand stream = Operand(0));

// Returns standard normal numbers by Box and Muller: sqrt(-2 log a) sin(pi b) with a in (0, 1] and b in
// [-1/2, 1/2]. Element n takes a and b from the low and the high word of the u64 word n; f64 takes them from
// the u64 words 2n and 2n + 1. f16 and bf16 are computed in f32 and rounded. Targets agree within 4 units in
// the last place.
Tile normal(Shape shape, Operand seed, Operand offset, DType dtype = DType::f32, Operand stream = Operand(0));

}  // namespace tile
