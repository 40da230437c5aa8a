// Sums that many blocks add to: each block writes its part, a second kernel adds the parts in order.
// Deterministic.
#pragma once
#include <optional>

#include "tile/op.h"

namespace tile {

// Blocks that walk `tiles` row tiles of one slice, about `wanted` in all, and tiles a block; the same on
// every machine of a kind.
struct Parts {
  int64_t blocks, tiles;
};
Parts parts(int64_t tiles, int64_t slices, int64_t wanted);

// out[i] = sum of parts[p, i] over p, where `parts` is [p, n] and contiguous and `out` holds n elements.
void sum_parts(const at::Tensor& parts, const at::Tensor& out);
// Two of them, of as many elements, in one launch where there is a GPU; a missing one is not summed.
struct Summed {
  const at::Tensor& parts;
  const std::optional<at::Tensor>& out;
};
void sum_parts(const Summed& first, const Summed& second);

}  // namespace tile
