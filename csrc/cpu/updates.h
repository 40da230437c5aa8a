// Loads of tiles that the kernel writes back, changed, to where they came from: x[i] = f(x[i]).
#pragma once
#include <unordered_set>

#include "ir/op.h"

namespace tile::cpu {

// They need not be copied out of memory, as other loads of arrays that are written must: whatever reads one
// is a step of what the only store into its array writes to the same elements, so that it runs before, or, in
// a sweep, chunk by chunk with it.
std::unordered_set<const Op*> updating_loads(const Function& function);

}  // namespace tile::cpu
