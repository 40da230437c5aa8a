// Begins loads of rows and columns of an epilogue before their values are needed.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// Moves loads of rows and columns that panels of a product's sum use (divide_epilogues) in front of the
// product's loop; loads of rows of a later panel in front of the panel before it, so that registers hold few
// of them. Arrays that the kernel writes are loaded where they were. The kernel computes the same bits.
void begin_loads_early(Function& function);

}  // namespace tile::cuda
