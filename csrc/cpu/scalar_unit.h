// Elementwise primitives on scalars: one call on one lane.
#pragma once
#include "cpu/lower.h"

namespace tile::cpu {

std::unique_ptr<Unit> scalar_unit(Lower& lower, const Op& op);

}  // namespace tile::cpu
