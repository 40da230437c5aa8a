// Matrix products on tile descriptors, shared by mma and the blocked loop around it.
#pragma once
#include "cpu/gemm/gemm_table.h"
#include "cpu/interpreter/frame.h"

namespace tile::cpu {

// A matrix argument of the gemm kernels.
struct Matrix {
  MatrixView view;
  DType dtype;    // of the elements at view.data
  bool in_place;  // in the format of the kernels' direct forms
};
// Returns axes `row` and `row + 1` of a tile as a matrix; all elements must exist.
Matrix matrix_of(const TileRef& tile, int row, const GemmKernels& kernels);

// The part of an axis that is multiplied: `real` elements from memory, after which the tile is zero (`zeros`)
// or ends.
struct Reach {
  int64_t real;
  bool zeros;  // the padding after `real` is zero
};
// Makes `tile` regular along an axis of extent `full`. Copies it if its padding is nonzero or in front, or if
// it is clamped and `must_fill`.
Reach reach(TileRef& tile, int rank, int axis, const Shape& shape, bool must_fill, Scratch& scratch);

// Acquires the registers that the kernels need, if any, before a thread calls `packed` or its callers. The
// thread keeps them until give_registers_back(), at the end of a piece of work.
void take_registers(const GemmKernels& kernels, Frame& frame);
void give_registers_back(Frame& frame);

// Writes the accumulator to `out` as dense lanes of these extents. Returns false, without writing, if it is
// zero and the product `covers` all of `out`, so that the product may overwrite it. The accumulator's buffer
// may be `out`.
bool begin_product(const TileRef& accumulator, int rank, const int64_t* extents, char* out, bool covers,
                   Frame& frame);

}  // namespace tile::cpu
