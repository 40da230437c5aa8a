// The loop that the CPU target is given to run on torch's threads.
#pragma once
#include <cstdint>

namespace tile {

// Calls body(first, last, context) for parts of [begin, end) of at least `grain`, on several threads; returns
// when all are done and rethrows what the first of them threw.
void parallel_for_of_torch(int64_t begin, int64_t end, int64_t grain, void (*body)(int64_t, int64_t, void*),
                           void* context);

}  // namespace tile
