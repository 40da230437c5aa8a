// Splits two layouts of the same elements into modes that both have: a move between the layouts consists of
// them.
#pragma once
#include <optional>
#include <vector>

#include "cuda/layout.h"

namespace tile::cuda {

// Where a mode is read: index[level] / stride.
struct IndexCoordinate {
  Level level;
  int stride;
  bool operator==(const IndexCoordinate&) const = default;
};

// A mode of the element's index, index / weight % extent; extents are 2 or odd. `from` or `to` is missing
// where a layout has padding there, or where it has none and the other has.
struct IndexMode {
  int64_t weight;
  int extent;
  std::optional<IndexCoordinate> from, to;
  bool operator==(const IndexMode&) const = default;
};

// By weight; none where the modes of one layout cut through those of the other: 3 in a row against 2.
std::optional<std::vector<IndexMode>> index_modes(const Layout& from, const Weights& from_weights,
                                                  const Layout& to, const Weights& to_weights);

}  // namespace tile::cuda
