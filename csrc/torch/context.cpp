// Reads torch's global settings and allocates results.
#include "torch/context.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>

namespace tile {
namespace {

// Returns the dispatch keys of memory on the tensor's device. Returns none if a call of torch would reach
// other kernels first.
c10::DispatchKeySet keys_of_memory(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet cpu(c10::DispatchKey::CPU), cuda(c10::DispatchKey::CUDA);
  const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  // Allocation has nothing to differentiate or cast.
  const c10::DispatchKeySet keys = ((tensor.key_set() | local.included_) - local.excluded_) -
                                   c10::autograd_dispatch_keyset_with_ADInplaceOrView -
                                   c10::autocast_dispatch_keyset -
                                   c10::DispatchKeySet(c10::DispatchKey::BackendSelect);
  return keys == cpu || keys == cuda ? keys : c10::DispatchKeySet();
}

}  // namespace

bool wants_fixed_order() { return at::globalContext().deterministicAlgorithms(); }

at::Tensor result_like(const at::Tensor& tensor) {
  const c10::DispatchKeySet keys = keys_of_memory(tensor);
  if (keys.empty() || !tensor.is_non_overlapping_and_dense()) return at::empty_like(tensor);
  return at::_ops::empty_strided::redispatch(keys, tensor.sym_sizes(), tensor.sym_strides(),
                                             tensor.scalar_type(), at::kStrided, tensor.device(),
                                             std::nullopt);
}

at::Tensor result_like(const at::Tensor& tensor, c10::SymIntArrayRef sizes, at::ScalarType dtype) {
  const c10::DispatchKeySet keys = keys_of_memory(tensor);
  if (keys.empty()) return at::empty_symint(sizes, tensor.options().dtype(dtype));
  return at::_ops::empty_memory_format::redispatch(keys, sizes, dtype, at::kStrided, tensor.device(),
                                                   std::nullopt, std::nullopt);
}

}  // namespace tile
