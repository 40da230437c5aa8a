// The gradients of an activation of one tensor times another.
#pragma once
#include <optional>

#include "../common/activation.h"

namespace tile {

// Gradients of activation(gate) * up in one launch: grad_out * activation'(gate) * up, grad_out *
// activation(gate), or both. All have one shape, and any strides. grad_gate may be grad_out itself.
void gated_gradients(Activation activation, const at::Tensor& grad_out, const at::Tensor& gate,
                     const at::Tensor& up, const std::optional<at::Tensor>& grad_gate,
                     const std::optional<at::Tensor>& grad_up);

}  // namespace tile
