// Makes a kernel persistent: a launch has as many blocks as run at once, and each runs several blocks of the
// kernel's grid, so that the next block's copies begin while the last one stores its results.
#pragma once
#include <optional>

#include "ir/op.h"

namespace tile::cuda {

// Wraps the body in a loop over the grid's blocks, of which this block runs every num_blocks-th. The function
// gets three more parameters, i32: the extents of the grid, whose product is below 2^31. The launch has one
// axis.
//
// With a `pair_axis` CTAs are pairs, which run blocks that are neighbours along this axis of the grid. A
// launch then has two axes: the two CTAs of a pair, and the pairs. Where the axis has an odd extent, one CTA
// of each last pair has no block: it does what the other one does, but stores nothing.
void make_persistent(Function& function, std::optional<int> pair_axis = std::nullopt);

// Returns true if some blocks may have more products than others: the bounds of a loop around a product
// depend on the block's index. CTAs then draw blocks (cuda/async/block_queue.h).
bool work_varies(const Function& function);

}  // namespace tile::cuda
