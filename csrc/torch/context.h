// Torch state that operators read besides their arguments: its switches, memory for results.
#pragma once
#include <ATen/core/Tensor.h>

namespace tile {

// torch.use_deterministic_algorithms: results are to repeat to the last bit.
bool wants_fixed_order();

// at::empty_like(tensor). The dispatcher is asked once, for memory of a CPU or a GPU, where no mode, no
// transform and no kind of tensor has a say; else all is left to at::empty_like.
at::Tensor result_like(const at::Tensor& tensor);
// The same for at::empty_symint(sizes, tensor.options().dtype(dtype)).
at::Tensor result_like(const at::Tensor& tensor, c10::SymIntArrayRef sizes, at::ScalarType dtype);

}  // namespace tile
