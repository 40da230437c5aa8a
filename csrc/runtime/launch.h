// What holds for a launch on every target.
#pragma once
#include "runtime/executable.h"

namespace tile {

// Where it will run. Errors: bad grids, arrays on several devices, extents too large.
const Target& check_launch(const KernelName& kernel, const Grid& grid, ArgumentRefs arguments);

// Runs what was checked; nothing where the grid is empty.
inline void run_blocks(const Executable& executable, const Grid& grid, ArgumentRefs arguments) {
  if (grid.x && grid.y && grid.z) executable.run({grid.x, grid.y, grid.z}, arguments);
}

}  // namespace tile
