// Passes tensors to CUDA C++ kernels as data pointers.
#pragma once
#include <ATen/core/Tensor.h>

#include "raw_cuda/raw_argument.h"
#include "torch/args.h"

namespace at {

inline tile::RawArgument to_raw_argument(const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  tile::require_strided(tensor);
  tile::RawArgument argument;
  argument.kind = tile::RawArgument::Kind::array;
  argument.data = tensor.data_ptr();
  argument.size = tensor.itemsize();
  for (const auto& [torch, ours] : tile::scalar_type_table)
    if (torch == tensor.scalar_type()) argument.dtype = ours;
  argument.device = tensor.is_cuda() ? tile::DeviceKind::cuda : tile::DeviceKind::cpu;
  argument.device_index = tensor.is_cuda() ? tensor.get_device() : 0;
  return argument;
}
inline tile::RawArgument to_raw_argument(const std::optional<Tensor>& tensor) {
  return tensor ? to_raw_argument(*tensor) : tile::RawArgument();
}

}  // namespace at
