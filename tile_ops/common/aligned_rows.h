// Copies of tensors that a GPU's copy unit cannot read where they are.
#pragma once
#include "tile/op.h"

namespace tile {

// Returns a copy of a matrix or of several, [..., rows, columns], whose rows begin at multiples of 16 bytes.
at::Tensor copy_in_aligned_rows(const at::Tensor& matrices);
// The bytes that it takes.
int64_t bytes_in_aligned_rows(const at::Tensor& matrices);

}  // namespace tile
