// Maps the registers of one layout to those of another by the elements' row-major indices.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cuda/layout.h"

namespace tile::cuda {

// `holds` returns true if the register holds an element and not padding; `linear_index` returns that
// element's row-major index.
bool holds(const Layout& layout, int block, int thread, int index);
int64_t linear_index(const Layout& layout, const Weights& weights, int block, int thread, int index);

// Maps each register of `to` to the register of `from` in which the same thread holds that element; none if
// some element is in another thread or another block of the cluster.
std::optional<std::vector<int>> register_map(const Layout& from, const Weights& from_weights,
                                             const Layout& to, const Weights& to_weights, int threads,
                                             int blocks = 1);
// Returns "Weights<64, 1>".
std::string weights_text(const Weights& weights);
// Returns the map as an expression over r: a sum of parts of r if it is one, else a table, whose lookups take
// the compiler long.
std::string map_text(const std::vector<int>& map, const Layout& over);

}  // namespace tile::cuda
