// Distributes the sums of a product by FMA over threads: each holds a block of rows and columns in registers,
// so that an element that it reads from shared memory serves all rows or all columns of the block.
#pragma once
#include "cuda/layout.h"
#include "cuda/staging.h"
#include "ir/op.h"

namespace tile::cuda {

// Returns true if blocks of threads divide the extents of an f32 product, which has no tensor cores. Others
// are summed element by element.
bool multiplies_by_blocks(const Op& mma);

struct FmaPlan {
  int lanes_m, lanes_n;  // of a warp
  int warps_m, warps_n;  // of a CTA
  int rows, columns;     // of a thread's block
  // An operand whose rows in shared memory run along k is read in vectors along k: lanes then have adjacent
  // rows of it, which are in different banks. Other operands are read in vectors of adjacent elements.
  bool adjacent_rows = true, adjacent_columns = true;
};
// For so many warps; those that the product does not need repeat its sums.
FmaPlan fma_plan(const Shape& shape, int warps);
// The register of row i and column j of a thread's block is i * columns + j.
Layout fma_layout(const Shape& shape, const FmaPlan& plan);

// Returns how many warps a kernel with such products runs, or 0 if it has none.
int fma_warps(const Function& function, const StagingPlan& staging);

}  // namespace tile::cuda
