// The cost of a global memory access in a layout: the number of sectors that its warps touch.
#pragma once
#include "cuda/layout.h"

namespace tile::cuda {

// Returns the access's cost in half cycles of a multiprocessor, in the unit of cuda/conversion.h,
// summed over all warps of the block. `unit` is the axis whose elements are adjacent in memory, or
// -1 if unknown; rows along it are assumed to share no sector. `together` is the number of elements
// per access.
int64_t access_cost(const Layout& layout, int unit, int together, int element_bytes, int warps);

}  // namespace tile::cuda
