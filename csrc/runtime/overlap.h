// Whether elements of arrays share memory: what a launch asks, or an operator that writes into its arguments.
#pragma once
#include <cstdint>
#include <span>

#include "runtime/argument.h"

namespace tile {

// Elements of `bytes` bytes at an address, or at a place in a storage; strides in elements, may be negative.
struct Placed {
  int64_t address, bytes;
  std::span<const int64_t> sizes, strides;
};
Placed placed(const ArrayArgument& array);

// Whether an element of one shares bytes with an element of the other. Arrays that are interleaved in memory,
// as parts of one projection are, do not.
bool overlap(const Placed& x, const Placed& y);

// Whether two elements of it share memory, as those of an expanded tensor do.
bool overlaps_itself(const Placed& x);

}  // namespace tile
