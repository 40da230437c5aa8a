// Multiplies tensors by a number on their device. Gradients that a forward pass computed take their factor
// so.
#pragma once
#include "tile/op.h"

namespace tile {

// out = x * factor, where factor has one element. out may be x; a factor of 1 then takes no memory traffic.
void scale(const at::Tensor& x, const at::Tensor& factor, const at::Tensor& out);

}  // namespace tile
