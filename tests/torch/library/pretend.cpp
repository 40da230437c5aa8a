// Tensors in the CPU's memory that claim to be on a GPU, for launches on the fake driver.
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "driver/current_stream.h"

namespace {

at::Tensor pretend_cuda(const at::Tensor& x, int64_t index) {
  // Also replaces the guard of a torch for CUDA, whose driver is the real one and lacks these devices.
  c10::impl::DeviceGuardImplRegistrar(c10::kCUDA, nullptr);
  tile::set_current_stream([](int) -> void* { return nullptr; });
  tile::set_current_device([] { return 0; });
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  return at::for_blob(x.data_ptr(), x.sizes())
      .strides(x.strides())
      .options(x.options().device(device))
      .target_device(device)
      .deleter([keep = x](void*) {})
      .make_tensor();
}

TORCH_LIBRARY_FRAGMENT(tt, library) {
  library.def("pretend_cuda(Tensor x, int index=0) -> Tensor");
  library.impl("pretend_cuda", c10::DispatchKey::CPU, pretend_cuda);
}

}  // namespace
