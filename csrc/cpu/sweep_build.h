// Building a sweep from the ops that share it.
#pragma once
#include <functional>

#include "cpu/lower.h"
#include "cpu/sweep.h"

namespace tile::cpu {

bool in_sweep(const Op& op);             // an elementwise op on a tile, a named reduction, or a store
const Shape& sweep_shape(const Op& op);  // the shape it runs over

std::unique_ptr<Unit> build_sweep(Lower& lower, const Shape& shape, const std::vector<const Op*>& ops,
                                  const std::function<bool(const Value*)>& needed_outside, Units& before);

}  // namespace tile::cpu
