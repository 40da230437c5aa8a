// The kernels below autograd: run on CPU and CUDA; only shapes on Meta; autocast; the version counters of
// written arguments.
#include <algorithm>

#include "driver/driver.h"
#include "runtime/launch.h"
#include "runtime/launch_observer.h"
#include "support/huge_pages.h"
#include "torch/deferred_release.h"
#include "torch/overlap.h"
#include "torch/record.h"
#include "torch/saving_run.h"

// Declared here because ATen/autocast_mode.h includes all of ATen.
namespace at::autocast {
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
TORCH_API Tensor cached_cast(at::ScalarType to_type, const Tensor& arg, DeviceType device_type);
}  // namespace at::autocast

namespace tile {
namespace {

using Stack = BoxedValues;

thread_local DeferredRelease* keeper = nullptr;

void fail_devices(const OperatorRecord& op, const c10::IValue* values, at::Device device) {
  size_t first = op.arguments;
  for (size_t i = 0; i < op.arguments; ++i)
    for_each_tensor(values[i], [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      first = std::min(first, i);
      if (tensor.device() == device) return;
      const auto& arguments = op.schema.arguments();
      fail(ErrorKind::runtime, op.body->name, ": '", arguments[first].name(), "' is on ", device.str(),
           ", but '", arguments[i].name(), "' is on ", tensor.device().str(), "; move them to one device");
    });
}
}  // namespace

std::optional<at::Device> require_one_device(const OperatorRecord& op, const c10::IValue* values) {
  const at::Tensor* first = nullptr;
  bool same = true;
  for_each_tensor(op, values, [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (!first) first = &tensor;
    same &= tensor.device() == first->device();
  });
  if (!first) return std::nullopt;
  const at::Device device = first->device();
  if (!same) [[unlikely]]
    fail_devices(op, values, device);
  return device;
}
ArgumentsDevice::ArgumentsDevice(const OperatorRecord& op, const c10::IValue* values) {
  const std::optional<at::Device> device = require_one_device(op, values);
  is_cpu_ = device && device->is_cpu();
  if (!device || !device->is_cuda()) return;
  Driver::require_own_process();  // torch's own error would say less
  if (c10::impl::getDeviceGuardImpl(device->type())->getDevice() != *device) guard_.reset_device(*device);
}

namespace {

// Calls a lambda that allocates, and appends `count` results to the stack.
void allocate(const OperatorBody& body, const char* what, const BoxedFunction& function, size_t count,
              size_t base, Stack& stack) {
  const size_t before = stack.size();
  function.call(stack.data() + base, stack);
  if (function.any_number) {
    const std::vector<at::Tensor> tensors = stack.back().toTensorVector();
    stack.pop_back();
    for (const at::Tensor& tensor : tensors) stack.emplace_back(tensor);
  }
  if (stack.size() - before != count)
    fail(ErrorKind::type, body.name, ": ", what, " returned ", stack.size() - before,
         " tensors, but the schema says ", count);
}

// Raises the error for a result that shares an argument's memory, which autograd, functionalisation and
// compilers forbid.
[[noreturn]] void fail_alias(const OperatorRecord& op, const c10::IValue* values, size_t k,
                             const c10::StorageImpl* storage) {
  for (size_t i = 0; i < op.arguments; ++i)
    for_each_tensor(values[i], [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !tensor.has_storage() || tensor.storage().unsafeGetStorageImpl() != storage)
        return;
      const std::string& name = op.schema.arguments()[i].name();
      fail(ErrorKind::value, op.body->name, ": outputs returned the memory of its argument '", name, "' as '",
           result_name(op.schema, k), "'; return a new tensor, as empty_like(", name, ") is");
    });
  TILE_CHECK(false, "no argument has the storage.");
}
void require_new(const OperatorRecord& op, const Stack& stack, size_t base) {
  const size_t first = base + op.arguments;
  for (size_t k = first; k < stack.size(); ++k) {
    if (!stack[k].isTensor()) continue;
    const at::Tensor& result = stack[k].toTensor();
    if (!result.defined() || !result.has_storage() || op.schema.returns()[k - first].alias_info()) continue;
    const c10::StorageImpl* storage = result.storage().unsafeGetStorageImpl();
    bool own = true;
    for_each_tensor(op, stack.data() + base, [&](const at::Tensor& tensor) {
      own &= !tensor.defined() || !tensor.has_storage() || tensor.storage().unsafeGetStorageImpl() != storage;
    });
    if (!own) [[unlikely]]
      fail_alias(op, stack.data() + base, k - first, storage);
  }
}

// Raises an error for a written argument that has several elements at one address, as an expanded tensor
// does.
void require_apart(const OperatorRecord& op, const c10::IValue* values) {
  for (const size_t i : op.tensor_arguments) {
    const c10::AliasInfo* alias = op.schema.arguments()[i].alias_info();
    if (!alias || !alias->isWrite()) continue;
    size_t item = 0;
    for_each_tensor(values[i], [&](const at::Tensor& tensor) {
      const size_t at = item++;
      // A nested tensor has no strides. The operator itself refuses it.
      if (!tensor.defined() || tensor.is_nested() || !tensor.has_storage() || tensor.numel() == 0) return;
      if (overlaps_itself(tensor))
        fail(ErrorKind::value, op.body->name, ": ", op.schema.arguments()[i].name(),
             values[i].isTensor() ? "" : str("[", at, "]"),
             " overlaps itself in memory, and is written; clone() it");
    });
  }
}

}  // namespace

void allocate_results(const OperatorRecord& op, Stack& stack) {
  const OperatorBody& body = *op.body;
  const size_t base = stack.size() - op.arguments;
  if (body.outputs) allocate(body, "outputs", body.outputs, body.results, base, stack);
  if (op.saving) allocate(body, "saved_outputs", body.saved_outputs, body.saved, base, stack);
  require_new(op, stack, base);
}

namespace {

// For the results on a CPU from stack[begin] on, which have not been written yet.
void ask_for_huge_pages(const Stack& stack, size_t begin) {
  for (size_t i = begin; i < stack.size(); ++i) {
    if (!stack[i].isTensor()) continue;
    const at::Tensor& tensor = stack[i].toTensor();
    if (!tensor.defined() || !tensor.is_cpu() || !tensor.has_storage()) continue;
    if (const size_t bytes = tensor.storage().nbytes(); bytes >= huge_pages_from) [[unlikely]]
      tile::ask_for_huge_pages(tensor.storage().mutable_data(), bytes);
  }
}

}  // namespace

void fill_results(const OperatorRecord& op, size_t base, Stack& stack) {
  const OperatorBody& body = *op.body;
  const size_t missing = op.saving ? 0 : body.saved;
  const bool masked = missing && !body.early.empty();
  const auto mask = [&] { return stack.begin() + static_cast<std::ptrdiff_t>(base + op.arguments); };
  if (masked) stack.insert(mask(), bools(std::vector<bool>(body.early.size())));
  if (missing) stack.resize(stack.size() + missing, c10::IValue(at::Tensor()));
  Stack nothing;
  body.run.call(stack.data() + base, nothing);
  if (missing) stack.resize(stack.size() - missing);
  if (masked) stack.erase(mask());
}

namespace {

// Raises an error that names the misaligned argument; returns if no argument is misaligned.
void name_misaligned(const OperatorRecord& op, const c10::IValue* values) {
  for (size_t i = 0; i < op.arguments; ++i)
    for_each_tensor(values[i], [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !tensor.numel() || !is_misaligned(tensor.data_ptr(), tensor.itemsize()))
        return;
      const std::string& name = op.schema.arguments()[i].name();
      fail(ErrorKind::value, "'", name, "' ",
           misaligned_text(tensor.data_ptr(), tensor.itemsize(),
                           c10::getDtypeNames(tensor.scalar_type()).first),
           "; copy it first, with ", name, ".clone()");
    });
}

struct RunKernel final : c10::OperatorKernel {
  explicit RunKernel(std::shared_ptr<OperatorRecord> operation) : op(std::move(operation)) {}
  std::shared_ptr<OperatorRecord> op;
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    const OperatorBody& body = *op->body;
    const size_t base = stack->size() - op->arguments;
    guarded(body.name, [&] {
      require_usable(*op);
      const ArgumentsDevice device(*op, stack->data() + base);
      if (op->mutates) require_apart(*op, stack->data() + base);
      stack->reserve(stack->size() + body.results + body.saved);
      const size_t results = stack->size();
      allocate_results(*op, *stack);
      if (device.is_cpu()) ask_for_huge_pages(*stack, results);
      try {
        if (op->saving && body.saves_launches)
          fill_and_save(*op, base, *stack);
        else
          fill_results(*op, base, *stack);
      } catch (const MisalignedArray&) {
        name_misaligned(*op, stack->data() + base);
        throw;
      }
    });
    DeferredRelease::take_off(*stack, base, op->arguments);
  }
};

struct MetaKernel final : c10::OperatorKernel {
  explicit MetaKernel(std::shared_ptr<OperatorRecord> operation) : op(std::move(operation)) {}
  std::shared_ptr<OperatorRecord> op;
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    const size_t base = stack->size() - op->arguments;
    guarded(op->body->name, [&] {
      require_usable(*op);
      require_one_device(*op, stack->data() + base);
      allocate_results(*op, *stack);
      // In an inspection the tensors represent GPU tensors, and the launches are compiled and not run.
      if (LaunchObserver::of_thread()) {
        if (op->mutates) require_apart(*op, stack->data() + base);
        if (op->saving && op->body->saves_launches)
          fill_and_save(*op, base, *stack);
        else
          fill_results(*op, base, *stack);
      }
    });
    stack->erase(stack->begin() + base, stack->begin() + base + op->arguments);
  }
};

// Without it, autograd would not notice that a saved tensor was overwritten by an operator.
struct VersionKernel final : c10::OperatorKernel {
  explicit VersionKernel(std::shared_ptr<OperatorRecord> operation) : op(std::move(operation)) {}
  std::shared_ptr<OperatorRecord> op;
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
    std::vector<at::Tensor> written;
    const auto arguments = torch::jit::last(*stack, op->arguments);
    for (size_t i = 0; i < op->arguments; ++i)
      if (const c10::AliasInfo* alias = op->schema.arguments()[i].alias_info(); alias && alias->isWrite())
        for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
          if (tensor.defined()) written.push_back(tensor);
        });
    {
      at::AutoDispatchBelowADInplaceOrView guard;
      handle.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
    }
    for (const at::Tensor& tensor : written) torch::autograd::impl::bump_version(tensor);
  }
};

struct AutocastKernel final : c10::OperatorKernel {
  AutocastKernel(std::shared_ptr<OperatorRecord> operation, c10::DeviceType type)
      : op(std::move(operation)), device(type) {}
  std::shared_ptr<OperatorRecord> op;
  c10::DeviceType device;
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, Stack* stack) {
    const bool cpu = device == c10::kCPU;
    const AutocastPolicy policy = cpu ? op->autocast_cpu : op->autocast_cuda;
    c10::impl::ExcludeDispatchKeyGuard guard(cpu ? c10::DispatchKey::AutocastCPU
                                                 : c10::DispatchKey::AutocastCUDA);
    if (policy != AutocastPolicy::keep) {
      const at::ScalarType dtype =
          policy == AutocastPolicy::lower ? at::autocast::get_autocast_dtype(device) : at::kFloat;
      for (size_t i = stack->size() - op->arguments; i < stack->size(); ++i)
        (*stack)[i] = map_tensors((*stack)[i], [&](const at::Tensor& tensor) {
          return at::autocast::cached_cast(dtype, tensor, device);
        });
    }
    handle.callBoxed(stack);
  }
};

}  // namespace

DeferredRelease::DeferredRelease(const BoxedValues& stack) : stack_(stack), before_(keeper) { keeper = this; }
DeferredRelease::~DeferredRelease() { keeper = before_; }
void DeferredRelease::take_off(BoxedValues& stack, size_t base, size_t count) {
  const auto first = stack.begin() + static_cast<std::ptrdiff_t>(base);
  const auto last = first + static_cast<std::ptrdiff_t>(count);
  // If the stacks differ, this is a nested call.
  if (DeferredRelease* own = keeper; own && &own->stack_ == &stack)
    own->values_.append(std::move_iterator(first), std::move_iterator(last));
  stack.erase(first, last);
}

void raise(const std::string& name, ErrorKind kind, const std::string& text) {
  const std::string full = name.empty() || text.starts_with(name + ": ") ? text : name + ": " + text;
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  switch (kind) {
    case ErrorKind::value:
      throw c10::ValueError(here, full);
    case ErrorKind::type:
      throw c10::TypeError(here, full);
    case ErrorKind::unsupported:
      throw c10::NotImplementedError(here, full);
    case ErrorKind::runtime:
      break;
  }
  throw c10::Error(here, full);
}

void require_usable(const OperatorRecord& op) {
  const OperatorBody& body = *op.body;
  if (body.error.empty() && body.run && (!body.results || body.outputs) &&
      (!body.saved || body.saved_outputs)) [[likely]]
    return;
  if (!body.error.empty()) throw Error(body.error_kind, body.error);
  const auto need = [&](bool given, const char* what) {
    if (given) return;
    if (body.run && !body.run.typed)  // defined in Python
      fail(ErrorKind::runtime, body.name, ": has no ", what, "; give op(…) ", what,
           "=, a class a function of that name, or decorate one with @",
           body.name.substr(body.name.rfind(':') + 1), ".", what);
    fail(ErrorKind::runtime, body.name, ": has no ", what, "; add .", what, "(…) to its definition");
  };
  need(static_cast<bool>(body.run), "run");
  need(body.results == 0 || body.outputs, "outputs");
  need(body.saved == 0 || body.saved_outputs, "saved_outputs");
}

torch::CppFunction run_kernel(std::shared_ptr<OperatorRecord> op) {
  return boxed_kernel<RunKernel>(std::move(op));
}
torch::CppFunction meta_kernel(std::shared_ptr<OperatorRecord> op) {
  return boxed_kernel<MetaKernel>(std::move(op));
}
torch::CppFunction version_kernel(std::shared_ptr<OperatorRecord> op) {
  return boxed_kernel<VersionKernel>(std::move(op));
}
torch::CppFunction autocast_kernel(std::shared_ptr<OperatorRecord> op, c10::DeviceType device) {
  return boxed_kernel<AutocastKernel>(std::move(op), device);
}

}  // namespace tile
