// Whether elements of tensors share memory.
#pragma once
#include <ATen/core/Tensor.h>

namespace tile {

// Whether an element of one shares bytes with an element of the other. Tensors that are interleaved in
// memory, as parts of one projection are, do not.
bool overlap(const at::Tensor& x, const at::Tensor& y);

// Whether two elements of it share memory, as those of an expanded tensor do.
bool overlaps_itself(const at::Tensor& x);

}  // namespace tile
