// Divided iterations: a loop that adds up products computes a part of its tiles in each iteration.
#pragma once
#include "ir/op.h"

namespace tile {

// Divides the rows that the products of the function's only loop add up over, so that its tiles need fewer
// registers. Returns false, and leaves the function as it was, if some tile cannot be loaded or computed in
// parts.
bool divide_iterations(Function& function, int64_t parts);

}  // namespace tile
