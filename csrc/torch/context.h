// What operators ask beside their arguments: the device of a tensor, torch's switches.
#pragma once
#include <ATen/core/Tensor.h>

namespace tile {

// Shared memory that a block of threads may have on the tensor's device; 0: no GPU.
int shared_bytes_of(const at::Tensor& tensor);

// torch.use_deterministic_algorithms: results are to repeat to the last bit.
bool wants_fixed_order();

}  // namespace tile
