// Hints of a kernel's author for a GPU; a CPU ignores them.
#pragma once
#include "support/location.h"

namespace tile {

// The threads that a tile is distributed over: times the usual by a power of two, -1 half as many; within a
// warp and what a block may have. A kernel of several sums, each of which waits for the one before, may be
// faster with fewer. Kernels that multiply matrices get no fewer. Error: a power below -5 or above 5.
void hint_threads(int power, Location location = Location::current());

}  // namespace tile
