// A pass of this target: what came from 16-bit memory stays 16 bits wide in registers while it waits.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// The function with conversions of 16-bit tiles to wider ones, and the sums and products that follow at once,
// done again where they are used: in the loop that alone needs them (loop-invariant code motion took them
// out), and behind a reduction, over which the wider tile would else live.
//
// all: whatever is computed element by element from 16-bit tiles is done again behind a reduction, also where
// that is not cheap: tiles that a cluster holds leave no registers for results.
Function with_narrow_storage(const Function& function, bool all = false);

// Returns true if the op rounds a tile to 16 bits: what is kept, not made again.
bool rounds(const Op& op);

// Returns true if this conversion must stay at its position.
bool stays_here(const Op& conversion);

}  // namespace tile::cuda
