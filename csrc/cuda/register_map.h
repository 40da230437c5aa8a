// Where the elements of one layout stand in another, when both are read as places in one row-major order.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cuda/layout.h"

namespace tile::cuda {

// Returns true if the register holds an element, and not padding; and that element's place.
bool holds(const Layout& layout, int block, int thread, int index);
int64_t place(const Layout& layout, const Weights& weights, int block, int thread, int index);

// For each register of `to`, the register of `from` in which the same thread finds that place; none where
// some element stands in another thread, also of another of the cluster's blocks.
std::optional<std::vector<int>> register_map(const Layout& from, const Weights& from_weights,
                                             const Layout& to, const Weights& to_weights, int threads,
                                             int blocks = 1);
// "Weights<64, 1>"
std::string weights_text(const Weights& weights);
// The map as an expression over r: modes of r where it is a sum of them, else a table.
std::string map_text(const std::vector<int>& map, const Layout& over);

}  // namespace tile::cuda
