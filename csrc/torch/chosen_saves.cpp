// Says which calls save what the compiler chooses.
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "runtime/launch_observer.h"
#include "torch/record.h"
#include "torch/traced_tensor.h"

namespace tile {
namespace {

bool (*traced_tensor)(const at::Tensor& tensor) = nullptr;

}  // namespace

bool may_choose(const OperatorRecord& op, const c10::IValue* arguments) {
  using Key = c10::DispatchKey;
  constexpr c10::DispatchKeySet parts = c10::DispatchKeySet(Key::FuncTorchBatched) |
                                        c10::DispatchKeySet(Key::FuncTorchBatchedDecomposition) |
                                        c10::DispatchKeySet(Key::Batched);
  const bool records = op.body->saves_launches;  // the launches of run; a trace makes none
  // Some modes trace. One of torch.library.opcheck compares the results with those of fake tensors, which
  // hold no saved tiles.
  if (records && c10::impl::TorchDispatchModeTLS::any_modes_set()) return false;
  bool may = true;
  for (size_t i = 0; i < op.arguments; ++i) {
    const c10::IValue& value = arguments[i];
    may &= !value.isSymInt() && !value.isSymFloat() && !value.isSymBool() && !value.isSymIntList();
  }
  for_each_tensor(op, arguments, [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    may &= !impl.has_symbolic_sizes_strides() && !tensor.key_set().has_any(parts) &&
           (!impl.is_python_dispatch() || (!records && is_traced_tensor(tensor)));
    if (records && tensor.is_meta()) may &= LaunchObserver::of_thread() != nullptr;
  });
  return may;
}

void set_traced_tensor(bool (*which)(const at::Tensor& tensor)) { traced_tensor = which; }
bool is_traced_tensor(const at::Tensor& tensor) { return traced_tensor && traced_tensor(tensor); }

}  // namespace tile
