// The derivative of straight-line elementwise code, as more of it.
#pragma once
#include <optional>
#include <vector>

#include "dsl/tile.h"

namespace tile {

// Returns the gradient of each input, in its type, from the gradients seeds[k] of results[k]; none: the
// results do not depend on it, or only in steps, as floor does. Results, seeds and inputs are of one trace;
// only elementwise operations of floats may lie between inputs and results. Error: another operation, named
// with its location.
std::vector<std::optional<Tile>> derivatives(const std::vector<Tile>& results, const std::vector<Tile>& seeds,
                                             const std::vector<Tile>& inputs,
                                             Location location = Location::current());

// Primitives that have a rule, for tests.
std::vector<std::string_view> differentiable_primitives();

}  // namespace tile
