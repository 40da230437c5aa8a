// Finds left operands of which a part stays in registers while a loop multiplies them.
#pragma once
#include <vector>

#include "cuda/async/plan.h"

namespace tile::cuda {

// Returns products that read four steps along k of their left operand from registers. Their loops have at
// least two products whose left operands they do not load. The sums of a loop's products must leave
// registers, and no loop may keep other tiles. wgmma reads both operands of narrow products from shared
// memory in the time of the product itself, or longer.
std::vector<const Op*> held_operands(const Function& function, const AsyncPlan& plan);

}  // namespace tile::cuda
