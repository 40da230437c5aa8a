// The remainder of a derived kernel: sums over rows of tiles, which the threads that multiply cannot add up.
#pragma once
#include <optional>
#include <vector>

#include "derive/recomputed.h"
#include "derive/reverse.h"

namespace tile {

// Takes stores of gradients out of a kernel with products, if what they store is summed over rows of a tile
// that follows from products. Returns a kernel that loads these tiles and stores the gradients; it has the
// kernel's parameters, then three numbers of blocks. The caller adds what is kept.
std::optional<Function> take_remainder(Function& function, const std::vector<DerivedGradient>& gradients,
                                       KeptTiles& kept);

}  // namespace tile
