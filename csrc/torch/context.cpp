// Devices of tensors, a meta tensor's being the one that an observer has it stand for; torch's context.
#include "torch/context.h"

#include <ATen/Context.h>

#include "cuda/program.h"
#include "runtime/driver.h"
#include "runtime/launch_observer.h"

namespace tile {

int shared_bytes_of(const at::Tensor& tensor) {
  if (tensor.is_cuda()) return Driver::get().properties(tensor.device().index()).shared_bytes;
  const LaunchObserver* observer = tensor.is_meta() ? LaunchObserver::of_thread() : nullptr;
  const cuda::Target* target = observer ? observer->target() : nullptr;
  return target ? target->shared_bytes : 0;
}

bool wants_fixed_order() { return at::globalContext().deterministicAlgorithms(); }

}  // namespace tile
