// Makes a kernel persistent: a launch has as many blocks as run at once, and each runs several blocks of the
// kernel's grid, so that the next block's copies begin while the last one stores its results.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// Wraps the body in a loop over the grid's blocks, of which this block runs every num_blocks-th. The function
// gets three more parameters, i32: the extents of the grid, whose product is below 2^31. The launch has one
// axis.
void make_persistent(Function& function);

// Returns true if some blocks may have more products than others: the bounds of a loop around a product
// depend on the block's index. CTAs then draw blocks (cuda/async/block_queue.h).
bool work_varies(const Function& function);

}  // namespace tile::cuda
