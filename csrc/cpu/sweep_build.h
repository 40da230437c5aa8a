// Building a sweep from the ops that share it.
#pragma once
#include <functional>

#include "cpu/lower.h"
#include "cpu/sweep.h"

namespace tile::cpu {

bool in_sweep(const Op& op);             // an elementwise op on a tile, a named reduction, or a store
const Shape& sweep_shape(const Op& op);  // the shape it runs over

using Asked = std::function<bool(const Value*)>;
// rounded: computed by other sweeps too, and the same in all: its op is not contracted with what reads it.
std::unique_ptr<Unit> build_sweep(Lower& lower, const Shape& shape, const std::vector<const Op*>& ops,
                                  const Asked& needed_outside, const Asked& rounded,
                                  std::vector<SweepAhead> ahead, Units& before);

}  // namespace tile::cpu
