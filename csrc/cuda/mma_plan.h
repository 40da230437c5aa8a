// How the blocks of a product on tensor cores are dealt out to warps.
#pragma once
#include "cuda/layout.h"
#include "ir/op.h"

namespace tile::cuda {

struct MmaPlan {
  int warps_m, warps_n;    // of the block of threads
  int blocks_m, blocks_n;  // of 16 x 8 elements, a warp
};
// by_rows: a warp has whole rows, so that what reduces them stays in it.
MmaPlan mma_plan(const Shape& shape, int warps, bool by_rows);
// The accumulator's layout: mma.m16n8k16 as the PTX ISA has it.
Layout accumulator_layout(const Shape& shape, const MmaPlan& plan);

// Of a kernel: whether it multiplies on tensor cores at all, and by rows; how many warps suit it.
struct MmaKernel {
  static constexpr int most_warps = 8;
  bool any = false, by_rows = false;
  int warps = 1;
  // A left operand that was computed and turned goes through shared memory, whatever warp made its rows.
  bool multiplies_by_rows(const Op& mma) const;
};
MmaKernel mma_kernel(const Function& function);

}  // namespace tile::cuda
