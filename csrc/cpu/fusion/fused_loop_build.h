// Builds a fused loop from the ops that share it.
#pragma once
#include <functional>

#include "cpu/fusion/fused_loop.h"
#include "cpu/interpreter/lowering_context.h"

namespace tile::cpu {

bool in_fused_loop(const Op& op);             // an elementwise op on a tile, a named reduction, or a store
const Shape& fused_loop_shape(const Op& op);  // the shape that it runs over

using Asked = std::function<bool(const Value*)>;
// Facts about the other nodes of a fused loop's block.
struct FusedLoopSurroundings {
  Asked needed_outside;
  // The value is recomputed by other fused loops and must be identical in all: its op is not contracted with
  // its readers.
  Asked rounded;
  Asked read_once;  // in memory, and read by no other node
  std::vector<FusedLoopPrefetch> prefetch;
};
std::unique_ptr<OpNode> build_fused_loop(LoweringContext& lower, const Shape& shape,
                                         const std::vector<const Op*>& ops,
                                         const FusedLoopSurroundings& around, OpNodes& before);

}  // namespace tile::cpu
