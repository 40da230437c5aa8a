// Defines the memory checks of operators that write into their arguments.
#pragma once
#include "tile/op.h"
#include "tile/overlap.h"

namespace tile {

// Returns true if both are the same elements in the same memory.
inline bool is_same_view(const at::Tensor& x, const at::Tensor& y) {
  return x.scalar_type() == y.scalar_type() && x.storage_offset() == y.storage_offset() &&
         x.sizes().equals(y.sizes()) && x.strides().equals(y.strides()) &&
         x.storage().is_alias_of(y.storage());
}
// An error where a tensor that is written overlaps itself.
inline void require_no_overlap(std::string_view name, const at::Tensor& tensor) {
  if (overlaps_itself(tensor))
    fail(ErrorKind::value, name, " overlaps itself in memory, and is written; clone() it");
}
// An error where the two overlap, of which at least one is written.
inline void require_no_overlap(std::string_view first, const at::Tensor& x, std::string_view second,
                               const at::Tensor& y) {
  if (overlap(x, y))
    fail(ErrorKind::value, first, " and ", second,
         " overlap in memory, which is written; clone() one of them");
}

}  // namespace tile
