// Whether elements of tensors share memory: what an operator that writes into its arguments asks.
#pragma once
#include "tile/op.h"

namespace tile {

// Whether an element of one shares bytes with an element of the other. Tensors that are interleaved in
// memory, as parts of one projection are, do not.
bool overlap(const at::Tensor& x, const at::Tensor& y);

// Whether two elements of it share memory, as those of an expanded tensor do.
bool overlaps_itself(const at::Tensor& x);

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
