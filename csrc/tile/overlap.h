// Declares the overlap checks of tensors.
#pragma once
#include <ATen/core/Tensor.h>

namespace tile {

// Returns true if an element of one shares bytes with an element of the other. Tensors that are interleaved
// in memory, such as parts of one projection, do not.
bool overlap(const at::Tensor& x, const at::Tensor& y);

// Returns true if two elements share memory, as those of an expanded tensor do.
bool overlaps_itself(const at::Tensor& x);

}  // namespace tile
