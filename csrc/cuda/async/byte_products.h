// Starts products of 8-bit operands early. They take half the time of others, so that more of it is spent
// waiting; and as tensor cores add them in few bits, loops add their sums to others. Products of 16-bit
// operands, as of attention's gradient, stay in order: these loops would spill more registers.
#pragma once
#include <memory>
#include <vector>

#include "cuda/async/plan.h"

namespace tile::cuda {

using Ops = std::vector<std::unique_ptr<Op>>;

// Moves ops within one block of the code of the groups that multiply. Loads go behind the first product. A
// product goes in front of the op that awaits the product before it, if a thread's registers hold the sums of
// both; it then gets the attribute {early}.
void start_byte_products(const Block& block, Ops& ops, const AsyncPlan& plan);

}  // namespace tile::cuda
