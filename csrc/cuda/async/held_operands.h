// Finds left operands of which a part stays in registers while a loop multiplies them.
#pragma once
#include <vector>

#include "cuda/async/plan.h"

namespace tile::cuda {

// In loops whose products read at least two left operands that the loop does not load: the products that read
// four steps along k from registers, as far as the sums of the loop's products leave registers, and where no
// loop keeps other tiles. wgmma reads both operands of narrow products from shared memory in the time of the
// product itself, or longer.
std::vector<HeldOperand> held_operands(const Function& function, const AsyncPlan& plan);

}  // namespace tile::cuda
