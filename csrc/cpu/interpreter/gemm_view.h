// One matrix product on descriptors: what mma and the blocked loop over it share.
#pragma once
#include "cpu/gemm/gemm_table.h"
#include "cpu/interpreter/frame.h"

namespace tile::cpu {

// A matrix as the gemm kernels take it.
struct Matrix {
  MatrixView view;
  DType dtype;    // of the elements at view.data
  bool in_place;  // lies as the kernels' direct forms read it
};
// Axes `row` and `row + 1` of a tile, all of whose elements are there.
Matrix matrix_of(const TileRef& tile, int row, const GemmKernels& kernels);

// The part of an axis that is multiplied: `real` elements from memory, after which the tile is zero (`zeros`)
// or ends.
struct Reach {
  int64_t real;
  bool zeros;  // the padding after `real` is zero
};
// Makes `tile` regular along an axis of extent `full`: copies it where padding is not zero or lies in front,
// or where it is clamped and `must_fill`.
Reach reach(TileRef& tile, int rank, int axis, const Shape& shape, bool must_fill, Scratch& scratch);

// Before a thread calls `packed` or what calls it: takes the registers that it wants, if any, and keeps them
// until they are given back, at the end of a piece of work.
void take_registers(const GemmKernels& kernels, Frame& frame);
void give_registers_back(Frame& frame);

// The accumulator's content as dense lanes of these extents at `out`; true where there is something to add
// to, false where the product may overwrite. `in_place`: the accumulator's buffer is `out` itself.
bool begin_product(const TileRef& accumulator, int rank, const int64_t* extents, char* out, bool covers,
                   Frame& frame);

}  // namespace tile::cpu
