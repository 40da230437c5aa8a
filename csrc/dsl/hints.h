// An author's hints for a kernel on a GPU; a CPU ignores them.
#pragma once
#include "support/location.h"

namespace tile {

// Scales the number of threads that a tile is distributed over by a power of two: -1 halves the usual number.
// The result is at least a warp and at most a block. A kernel with several sums, each of which depends on the
// previous one, may be faster with fewer threads. Kernels with matrix products never use fewer. A power below
// -5 or above 5 is an error.
void hint_threads(int power, Location location = Location::current());

// Lets two blocks run together, as a cluster that copies a tile once if both multiply it: neighbours along an
// axis of the grid on which an operand of the products does not depend. Only kernels on warpgroup
// instructions that do no more than load and store heed it.
void hint_pairs(Location location = Location::current());

}  // namespace tile
