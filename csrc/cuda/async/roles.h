// Divides a kernel between the producer, which copies tiles into rings, and the groups, which multiply.
#pragma once
#include <optional>
#include <string>

#include "cuda/async/plan.h"

namespace tile::cuda {

// Rewrites the function of the plan. Scalars and views that need no tile stay before the op `roles`. The
// producer's region has the loops around the rings, with the copies; the groups' region has everything else,
// with the copies replaced by waits, and products issued and awaited. Returns why it cannot be done; the
// function is then of no use.
std::optional<std::string> divide_into_roles(Function& function, const AsyncPlan& plan);

}  // namespace tile::cuda
