// The kernel that adds up the parts of a gradient that blocks have written apart.
#pragma once
#include "ir/op.h"

namespace tile {

// A kernel of two arrays, parts [p, n] and out [n]: out[i] = sum of parts[p, i] over p, in order, and with
// `adds` of what is in out. A block has so many columns, and loads so many rows at once.
Function gradient_sum(DType parts, DType out, bool adds, int64_t rows, int64_t columns);

}  // namespace tile
