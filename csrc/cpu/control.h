// Loops, branches, and the values their regions hand on.
#pragma once
#include "cpu/lower.h"

namespace tile::cpu {

std::unique_ptr<Unit> control_unit(Lower& lower, const Op& op);             // for, loop, if
std::unique_ptr<Unit> terminator_unit(Lower& lower, const Op& terminator);  // yield, break, continue

}  // namespace tile::cpu
