// The remainder of a derived kernel: sums over rows of tiles, which the threads that multiply cannot add up.
#pragma once
#include <optional>
#include <set>
#include <vector>

#include "derive/recomputed.h"
#include "derive/reverse.h"

namespace tile {

// Takes stores of gradients out of a kernel with products, if what they store is summed over rows of a tile
// that follows from products, and everything else that follows from these. Returns a kernel that loads the
// results of loops and goes on; it has the kernel's parameters, then three numbers of blocks. It also stores
// the tiles of `kept` whose numbers it adds to `stored`; the caller adds the arrays of those that are kept.
std::optional<Function> take_remainder(Function& function, const std::vector<DerivedGradient>& gradients,
                                       KeptTiles& kept, std::set<size_t>& stored);

}  // namespace tile
