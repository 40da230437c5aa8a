// Structural checks after every pass: dominance, terminators, region arguments, types.
#pragma once
#include <string_view>

#include "ir/op.h"

namespace tile {

// Throws an internal error that names `after` (the pass that ran) and the op.
void verify(const Function& function, std::string_view after);

}  // namespace tile
