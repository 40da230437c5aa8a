// Loops and branches, and the values that their regions pass on.
#pragma once
#include "cpu/interpreter/lowering_context.h"

namespace tile::cpu {

std::unique_ptr<OpNode> control_node(LoweringContext& lower, const Op& op);  // for, loop, if
std::unique_ptr<OpNode> terminator_node(LoweringContext& lower,
                                        const Op& terminator);  // yield, break, continue

}  // namespace tile::cpu
