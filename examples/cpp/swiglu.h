// Declares silu(gate) * up, an elementwise operator with a gradient.
#pragma once
#include <ATen/core/Tensor.h>

namespace examples {
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
}
