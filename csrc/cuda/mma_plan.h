// How the blocks of a product on tensor cores are distributed to warps.
#pragma once
#include "cuda/layout.h"
#include "cuda/staging.h"
#include "ir/op.h"

namespace tile::cuda {

struct MmaPlan {
  int warps_m, warps_n;    // of the block of threads
  int blocks_m, blocks_n;  // of 16 x 8 elements, a warp
  // Bytes that k runs across are read as two neighbours at a time: rows 2 i and 2 i + 1 of 16 are
  // then rows i and i + 8 of a block, such columns are column i of two blocks.
  bool paired_rows = false, paired_columns = false;
};
// by_rows: a warp has whole rows, so that what reduces them stays in it.
MmaPlan mma_plan(const Shape& shape, int warps, bool by_rows);
// The accumulator's layout, see mma_instruction.h.
Layout accumulator_layout(const Shape& shape, const MmaPlan& plan);

// A kernel's use of tensor cores: whether it multiplies on them, by rows or not, and with how many warps.
// Products of products are by rows, unless a grid of warps moves clearly less between shared memory and
// registers.
struct MmaKernel {
  static constexpr int most_warps = 8;
  bool any = false, by_rows = false;
  int warps = 1;
  // A left operand that was computed and transposed goes through shared memory, whatever warp made its rows.
  bool multiplies_by_rows(const Op& mma) const;
};
MmaKernel mma_kernel(const Function& function, const StagingPlan& staging);

}  // namespace tile::cuda
