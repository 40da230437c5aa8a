// Splits two layouts of the same elements into common modes. A move between the layouts consists of
// them.
#pragma once
#include <optional>
#include <vector>

#include "cuda/layout.h"

namespace tile::cuda {

// The source of a mode: index[level] / stride.
struct IndexCoordinate {
  Level level;
  int stride;
  bool operator==(const IndexCoordinate&) const = default;
};

// A mode of the element's index: index / weight % extent, where the extent is 2 or odd. `from` or
// `to` is empty if that layout has padding there, or no mode where the other has one.
struct IndexMode {
  int64_t weight;
  int extent;
  std::optional<IndexCoordinate> from, to;
  bool operator==(const IndexMode&) const = default;
};

// Returns the modes in order of weight, or none if the two layouts' modes overlap without a common
// split, for example 3 against 2.
std::optional<std::vector<IndexMode>> index_modes(const Layout& from, const Weights& from_weights,
                                                  const Layout& to, const Weights& to_weights);

}  // namespace tile::cuda
