// Elementwise primitives on scalars: one call on one lane.
#pragma once
#include "cpu/interpreter/lowering_context.h"

namespace tile::cpu {

std::unique_ptr<OpNode> scalar_node(LoweringContext& lower, const Op& op);

}  // namespace tile::cpu
