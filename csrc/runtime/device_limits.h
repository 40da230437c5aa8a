// Limits and abilities of an array's device, for operators that choose tiles and dtypes by them.
#pragma once
#include "runtime/argument.h"

namespace tile {

// Bytes of tiles that a kernel on the array's GPU may keep in registers at once, of a block or of the largest
// cluster: a tile as it was read, and what is summed. 0: the array is not on a GPU.
int64_t most_tile_bytes(const ArrayArgument& array);
// Shared memory that a block of threads may have there; 0 likewise.
int most_shared_bytes(const ArrayArgument& array);
// Returns true if products on the array's device read its dtype without widening it. Where they widen it,
// rounding an operand to that dtype first would only lose accuracy.
bool multiplies_as_it_is(const ArrayArgument& array);

}  // namespace tile
