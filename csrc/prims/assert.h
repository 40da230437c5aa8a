// Assertions inside kernels.
#pragma once
#include <string_view>

#include "dsl/tile.h"

namespace tile {

// Every element of `condition`, bool of any shape, must be true, also where it comes from a load's padding.
// Where one is false its block does nothing more, and an error of kind runtime names file and line,
// `message`, the first false element, block and kernel: from the launch on the CPU; on a GPU, whose context
// stays well, from the next launch there or Driver::synchronize (in Python tile_ops.synchronize), and with
// CUDA_LAUNCH_BLOCKING=1 from the launch itself. (`assert` is a macro of C.)
void assert_(Operand condition, std::string_view message = "");

}  // namespace tile
