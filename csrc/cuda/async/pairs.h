// Lets two CTAs, a pair, run neighbouring blocks of the grid at the same time. A tile that both multiply is
// then copied once: each CTA copies half of it to the shared memory of both.
#pragma once
#include <optional>

#include "cuda/array_facts.h"
#include "cuda/async/plan.h"
#include "ir/op.h"

namespace tile::cuda {

// Returns the axis of the grid along which neighbouring blocks share operands of products: the one where
// these have most bytes. None if there is no such axis, or if the blocks may have different numbers of
// products. The block of a pair that lies outside of the grid must be able to leave out what it does: a
// kernel that does more than store, or that loads what it stores, has no pairs.
std::optional<int> pair_axis(const Function& function, const KernelArrays& arrays);

// Finds the tiles of a persistent kernel's rings that both CTAs of a pair read, axis 0 of whose grid counts
// the CTAs of a pair. The plan's cluster is 2 if there are any.
void share_tiles(AsyncPlan& plan, const Function& function, const KernelArrays& arrays);

// Replaces `stores_if` in the groups' region: unless its condition holds, the stores behind it are of a tile
// outside of the array.
void move_stores_outside(Function& function, Block& groups);

}  // namespace tile::cuda
