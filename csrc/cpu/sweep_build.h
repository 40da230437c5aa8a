// Building a sweep from the ops that share it.
#pragma once
#include <functional>

#include "cpu/lower.h"
#include "cpu/sweep.h"

namespace tile::cpu {

bool in_sweep(const Op& op);             // an elementwise op on a tile, a named reduction, or a store
const Shape& sweep_shape(const Op& op);  // the shape it runs over

using Asked = std::function<bool(const Value*)>;
// What a sweep must know of the other units of its block.
struct SweepSurroundings {
  Asked needed_outside;
  // Computed by other sweeps too, and the same in all: its op is not contracted with what reads it.
  Asked rounded;
  Asked read_once;  // in memory, and no other unit's
  std::vector<SweepAhead> ahead;
};
std::unique_ptr<Unit> build_sweep(Lower& lower, const Shape& shape, const std::vector<const Op*>& ops,
                                  const SweepSurroundings& around, Units& before);

}  // namespace tile::cpu
