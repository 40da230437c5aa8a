// Torch state that operators read besides their arguments: global settings, and memory for results.
#pragma once
#include <ATen/core/Tensor.h>

namespace tile {

// torch.use_deterministic_algorithms: results must be bitwise reproducible.
bool wants_fixed_order();

// at::empty_like(tensor). It asks the dispatcher directly for memory of a CPU or GPU if no mode, transform or
// kind of tensor can intercept the call; otherwise it calls at::empty_like.
at::Tensor result_like(const at::Tensor& tensor);
// Does the same for at::empty_symint(sizes, tensor.options().dtype(dtype)).
at::Tensor result_like(const at::Tensor& tensor, c10::SymIntArrayRef sizes, at::ScalarType dtype);

}  // namespace tile
