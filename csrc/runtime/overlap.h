// Declares the overlap checks of arrays, for launches and for operators that write into their arguments.
#pragma once
#include <cstdint>
#include <span>

#include "runtime/argument.h"

namespace tile {

// An array of elements of `bytes` bytes. The address may be an offset into a storage. Strides are in elements
// and may be negative.
struct StridedMemory {
  int64_t address, bytes;
  std::span<const int64_t> sizes, strides;
};
StridedMemory strided_memory(const ArrayArgument& array);

// Returns true if an element of one shares bytes with an element of the other. Arrays that are interleaved in
// memory, such as parts of one projection, do not.
bool overlap(const StridedMemory& x, const StridedMemory& y);

// Returns true if two elements share memory, as those of an expanded tensor do.
bool overlaps_itself(const StridedMemory& x);

}  // namespace tile
