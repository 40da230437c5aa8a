// Assertions inside kernels.
#pragma once
#include <string_view>

#include "dsl/tile.h"

namespace tile {

// Asserts that every element of `condition` (bool, any shape) is true, including elements that come from a
// load's padding. If one is false, its block stops and an error of kind runtime names file and line,
// `message`, the first false element, block and kernel. On the CPU the launch throws it. On a GPU, whose
// context stays usable, the next launch there or Driver::synchronize (in Python tile_ops.synchronize) throws
// it; with CUDA_LAUNCH_BLOCKING=1 the launch itself does. (`assert` is a macro of C.)
void assert_(Operand condition, std::string_view message = "");

}  // namespace tile
