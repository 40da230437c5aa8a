// Sums of products with factors that do not change along the summed axes.
#pragma once
#include "ir/op.h"

namespace tile {

// Multiplies such sums by the factor instead of their elements: sum(x * broadcast(s)) becomes s * sum(x). The
// adjoint of a statistic of a row, such as a mean, is often a sum of elements that other statistics have
// scaled; afterwards it no longer waits for these, and a target computes both sums together. Returns true if
// any has changed.
bool factor_sums(Function& function);

}  // namespace tile
