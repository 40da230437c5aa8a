// Values that the results of a kernel do not depend on, although they are computed from them.
#pragma once
#include <unordered_set>
#include <vector>

#include "ir/op.h"

namespace tile {

// Returns the largest and smallest elements that cancel out, such as the maximum that a softmax subtracts:
// its results are the same whatever number it is, but for rounding. Such a value has no derivative. saved:
// parameters that are no results, so that what they hold may depend on it.
std::unordered_set<const Value*> invariant_extremes(const Function& kernel,
                                                    const std::vector<size_t>& saved = {});

}  // namespace tile
