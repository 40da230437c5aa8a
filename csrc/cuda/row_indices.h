// Index tiles of rows that are copied to shared memory. Other readers of such a tile want it in other
// threads than those that copy, and the copies may not wait until elements have moved.
#pragma once
#include "cuda/staging.h"

namespace tile::cuda {

// Gives staged loads of rows index tiles of their own: repeats what computes them, next to the original.
void separate_row_indices(Function& function, const KernelArrays& arrays, const StagingPlan& staging);

}  // namespace tile::cuda
