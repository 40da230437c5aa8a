// Limits and abilities of an array's device, by which operators choose tiles and dtypes.
#pragma once
#include "runtime/argument.h"

namespace tile {

// Returns how many bytes of tiles a kernel on the array's GPU may keep in registers at once, for a block or
// the largest cluster: a tile in its own dtype, and its accumulators. Returns 0 if the array is not on a GPU.
int64_t most_tile_bytes(const ArrayArgument& array);
// Returns the shared memory that a thread block may use on that GPU, or 0.
int most_shared_bytes(const ArrayArgument& array);
// Returns true if that GPU multiplies arrays of this dtype, or rounded to `as`, on warpgroup instructions,
// which want large tiles. It does so if has_tensor_map() holds for both arrays, too, and operands of other
// than 16 bits are contiguous along k.
bool multiplies_by_groups(const ArrayArgument& array, DType as);
inline bool multiplies_by_groups(const ArrayArgument& array) {
  return multiplies_by_groups(array, array.dtype);
}
// Returns true if the GPU's copy unit can read the array: it has an axis of stride 1, 16-byte alignment, and
// positive strides and extents that are not too large.
bool has_tensor_map(const ArrayArgument& array);
// Returns true if products on the array's device read its dtype without widening it. If they widen it,
// rounding an operand to that dtype first would only lose accuracy.
bool multiplies_as_it_is(const ArrayArgument& array);
// Returns true if a row of this CPU's products has the same bits beside few rows and beside many.
bool sums_rows_alike();

}  // namespace tile
