// Exact evaluation of elementwise primitives on constants.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "ir/constant.h"

namespace tile {

using Fold = std::optional<Constant> (*)(std::span<const Constant> operands, DType result);

// Returns the folding function of the row of prims/elementwise with that name; null if targets may differ in
// the last bit.
Fold fold_of(std::string_view name);

}  // namespace tile
