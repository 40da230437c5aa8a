// Sums that many blocks add to: each block writes its part, a second kernel adds the parts in order.
// Deterministic.
#pragma once
#include <vector>

#include "tile/op.h"

namespace tile {

// Blocks that loop over `tiles` row tiles of one slice, about `wanted` in all, and tiles a block; the same on
// every machine of a kind.
struct Parts {
  int64_t blocks, tiles;
};
Parts parts(int64_t tiles, int64_t slices, int64_t wanted);

// out[i] = sum of parts[p, i] over p, where `parts` is [p, n] and contiguous and `out` holds n elements; or
// of each image, from [images, p, n] to [images, n]. One launch per two sums of equal shape.
struct PartialSum {
  at::Tensor parts, out;
};
void sum_partials(std::vector<PartialSum> sums);

}  // namespace tile
