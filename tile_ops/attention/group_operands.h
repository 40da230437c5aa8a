// Calls that kernels on warpgroup instructions take, and operands that are copied for them.
#pragma once
#include "bias.h"

namespace tile::attention {

// Returns true if warpgroup instructions can read the tensor.
bool read_by_groups(const Tensor& tensor);
// Returns true if kernels on warpgroup instructions do what is asked for: besides query, key and value they
// only take what is computed from positions, elements of tables, which caches hold, a mask's bits, and a
// floating bias that is copied ahead or is in tiles that a summary picks out. Random bits beside the sums of
// a deep head would leave registers for nothing; beside packed samples no test runs them.
bool fits_groups(const OptionalTensor& bias, const Problem& p);
bool runs_by_groups(const Operands& of, const OptionalTensor& bias, const Problem& p);

// Operands of kernels that fit warpgroup instructions: those that no tensor map describes are copied where
// that pays.
class GroupOperands {
 public:
  // wants_gradient: of the bias.
  GroupOperands(const Operands& of, const OptionalTensor& grad_out, const OptionalTensor& bias,
                bool wants_gradient, const Problem& p);
  Operands operands() const { return {query_, key_, value_}; }
  const OptionalTensor& grad_out() const { return grad_out_; }
  const OptionalTensor& bias() const { return bias_; }
  int64_t bytes() const { return bytes_; }

 private:
  // One of numbers, and one that no summary picks out.
  void copy_bias(bool wants_gradient, const Problem& p);

  Tensor query_, key_, value_;
  OptionalTensor grad_out_, bias_;
  int64_t bytes_ = 0;  // of the copies
};

}  // namespace tile::attention
