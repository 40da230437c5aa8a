// Tells tensors that a trace records from those that other classes take apart.
#pragma once
#include <ATen/core/Tensor.h>

namespace tile {

// which: returns true for a tensor of a class in Python that only stands for a tensor, as in a compilation.
// It is set where Python is known; without it there is none.
void set_traced_tensor(bool (*which)(const at::Tensor& tensor));
bool is_traced_tensor(const at::Tensor& tensor);

}  // namespace tile
