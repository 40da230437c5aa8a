// The cost of a global memory access in a layout: the number of sectors that its warps touch.
#pragma once
#include "cuda/layout.h"

namespace tile::cuda {

// Half cycles of a multiprocessor, as those of cuda/conversion.h, of all warps of the block. `unit`: the axis
// of neighbours in memory, -1: none is known; rows along it are taken to stand in sectors of their own.
// `together`: elements of an access.
int64_t access_cost(const Layout& layout, int unit, int together, int element_bytes, int warps);

}  // namespace tile::cuda
