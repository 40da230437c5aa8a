// Maps the registers of one layout to those of another by the elements' row-major indices.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cuda/layout.h"

namespace tile::cuda {

// Returns true if the register holds an element, and not padding; and that element's row-major index.
bool holds(const Layout& layout, int block, int thread, int index);
int64_t linear_index(const Layout& layout, const Weights& weights, int block, int thread, int index);

// For each register of `to`, the register of `from` in which the same thread holds that element; none where
// some element stands in another thread, also of another of the cluster's blocks.
std::optional<std::vector<int>> register_map(const Layout& from, const Weights& from_weights,
                                             const Layout& to, const Weights& to_weights, int threads,
                                             int blocks = 1);
// "Weights<64, 1>"
std::string weights_text(const Weights& weights);
// The map as an expression over r: modes of r where it is a sum of them, else a table.
std::string map_text(const std::vector<int>& map, const Layout& over);

}  // namespace tile::cuda
