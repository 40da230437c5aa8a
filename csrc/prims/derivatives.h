// The derivative of straight-line elementwise code, as further elementwise code.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "dsl/tile.h"

namespace tile {

// Returns the gradient of each input, in its type, from the gradients seeds[k] of results[k]. An input has
// none if the results do not depend on it, or only piecewise constantly, as with floor. Results, seeds and
// inputs belong to one trace, and only elementwise operations of floats may connect inputs and results.
// Another operation is an error that names it and its location.
std::vector<std::optional<Tile>> derivatives(const std::vector<Tile>& results, const std::vector<Tile>& seeds,
                                             const std::vector<Tile>& inputs,
                                             Location location = Location::current());

// Returns true if small numbers, 0 too, have finite results and gradients.
bool stays_finite(std::string_view primitive);

// Returns true if a small number, such as 0, has an infinite result or gradient, or NaN.
bool is_singular(std::string_view primitive);

// Returns the primitives that have a rule, for tests.
std::vector<std::string_view> differentiable_primitives();

}  // namespace tile
