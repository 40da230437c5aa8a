// Sums over what was broadcast, as products with ones.
#include <ATen/ops/ones.h>

#include "gemm.h"

namespace tile {

void sum_to(const at::Tensor& tensor, const at::Tensor& out, bool accumulate) {
  at::Tensor wide = out;
  while (wide.dim() < tensor.dim()) wide = wide.unsqueeze(0);
  const at::Tensor one = at::ones({1, 1}, tensor.options());
  // Every axis but one is a batch axis here; those summed become the inner extent.
  const Epilogue epilogue{.exact = true, .accumulate = accumulate};
  if (tensor.dim() == 0)
    multiply(tensor.view({1, 1}), one, wide.view({1, 1}), epilogue);
  else if (wide.size(-1) == tensor.size(-1))
    multiply(one, tensor.unsqueeze(-2), wide.unsqueeze(-2), epilogue);
  else
    multiply(tensor.unsqueeze(-2), one.expand({tensor.size(-1), 1}), wide.unsqueeze(-2), epilogue);
}

}  // namespace tile
