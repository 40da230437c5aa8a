// Distributes the blocks of a product on tensor cores over warps.
#pragma once
#include "cuda/layout.h"
#include "cuda/staging.h"
#include "ir/op.h"

namespace tile::cuda {

struct MmaPlan {
  int warps_m, warps_n;    // warps of a CTA
  int blocks_m, blocks_n;  // 16 x 8 blocks per warp
  // Byte operands that cross k are read in pairs of adjacent elements: rows 2 i and 2 i + 1 of 16
  // are then rows i and i + 8 of a block, and such columns are column i of two blocks.
  bool paired_rows = false, paired_columns = false;
};
// With `by_rows` each warp has whole rows, so that reductions of rows stay within it.
MmaPlan mma_plan(const Shape& shape, int warps, bool by_rows);
// Returns the accumulator's layout (see mma_instruction.h).
Layout accumulator_layout(const Shape& shape, const MmaPlan& plan);

// How a kernel uses tensor cores: whether it has products there, whether warps own whole rows, and
// how many warps it runs. Chained products use rows, unless a grid of warps moves clearly less
// between shared memory and registers.
struct MmaKernel {
  static constexpr int most_warps = 8;
  bool any = false, by_rows = false;
  int warps = 1;
  // Returns `by_rows`, or false if the left operand is computed and transposed: that goes through shared
  // memory, whichever warp computed its rows.
  bool multiplies_by_rows(const Op& mma) const;
};
MmaKernel mma_kernel(const Function& function, const StagingPlan& staging);

}  // namespace tile::cuda
