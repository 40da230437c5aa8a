// Tiles that loops of awaited products load beside their operands, such as attention's bias: the copy unit
// (TMA) moves them ahead, and each warp reads its elements where the loop uses them first.
#pragma once
#include <functional>
#include <vector>

#include "cuda/async/copied_tile.h"

namespace tile::cuda {

// Finds the loads, in the order of the kernel, of tiles that a block of products joins element by element
// with sums or left operands, and that the kernel writes nowhere. grouped: returns true if groups hold a tile
// of such a shape as they hold sums.
std::vector<CopiedTile> loop_tiles(const Function& function, const KernelArrays& arrays,
                                   const std::function<bool(const Shape&)>& grouped);

}  // namespace tile::cuda
