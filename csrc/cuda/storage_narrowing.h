// Storage narrowing, a pass of this target: values from 16-bit memory stay 16 bits wide in registers until
// they are used.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// Returns the function with conversions of 16-bit tiles to wider ones, and the sums and products that follow
// immediately, repeated where they are used: in the only loop that needs them (loop-invariant code motion
// moved them out), and after a reduction, during which the wider tile would otherwise be live.
//
// With `all`, everything computed element by element from 16-bit tiles is repeated after a reduction, even if
// it is not cheap: tiles distributed over a cluster leave no registers for results.
Function with_narrow_storage(const Function& function, bool all = false);

// Returns true if the op rounds a tile to 16 bits: such a tile is kept, not recomputed.
bool rounds(const Op& op);

// Returns true if this conversion must stay at its position.
bool stays_here(const Op& conversion);

}  // namespace tile::cuda
