// Loops that end by a condition become counted ones, which have a reverse loop.
#pragma once
#include "ir/op.h"

namespace tile {

// Replaces each `loop` that computes floats or writes. One that only compares a value, which grows by the
// same step, with a limit is a `for`. Another one becomes two loops: the first only counts the iterations,
// the second is a `for` over them. The bodies have no jumps. Where the last iteration writes nothing, it
// follows the loop, so that conditions are not tested again. Returns true if anything changed.
bool count_loops(Function& function);

}  // namespace tile
