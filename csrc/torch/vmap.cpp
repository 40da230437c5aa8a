// vmap: the batch becomes a leading extent, is folded into extent 0, or becomes a loop over the samples.
#include <ATen/ops/stack.h>

#include "torch/record.h"

namespace tile {

namespace functorch = at::functorch;
using Results = VmapCall::Results;

VmapCall::VmapCall(const OperatorRecord& op, BoxedValues arguments)
    : op_(op), arguments_(std::move(arguments)), batched_(op.arguments) {}

size_t VmapCall::index(std::string_view argument) const {
  if (const auto i = op_.schema.argumentIndexWithName(argument)) return *i;
  fail(ErrorKind::value, op_.body->name, ": vmap: '", argument, "' is not an argument; they are ",
       argument_names(op_.schema));
}
c10::IValue& VmapCall::operator[](std::string_view argument) { return arguments_[index(argument)]; }
bool VmapCall::batched(std::string_view argument) const {
  const std::vector<bool>& tensors = batched_[index(argument)];
  return std::find(tensors.begin(), tensors.end(), true) != tensors.end();
}
bool VmapCall::only(const std::vector<std::string>& arguments) const {
  for (const c10::Argument& argument : op_.schema.arguments())
    if (batched(argument.name()) &&
        std::find(arguments.begin(), arguments.end(), argument.name()) == arguments.end())
      return false;
  return true;
}
bool VmapCall::wanted(const std::vector<std::string>& results) {
  const auto mask = op_.schema.argumentIndexWithName("output_mask");
  if (!mask) return !results.empty();
  const c10::List<bool> bits = arguments_[*mask].toBoolList();
  for (size_t k = 0; k < op_.results && k < bits.size(); ++k)
    if (bits[k] && std::find(results.begin(), results.end(), result_name(op_.schema, k)) != results.end())
      return true;
  return false;
}

Results VmapCall::call() {
  BoxedValues stack = arguments_;
  op_.handle->callBoxed(stack);
  Results results;
  list_sizes_.clear();
  for (const c10::IValue& value : stack) {
    const size_t before = results.size();
    for_each_tensor(value, [&](const at::Tensor& tensor) { results.push_back(tensor); });
    list_sizes_.push_back(value.isTensor() ? -1 : static_cast<int>(results.size() - before));
  }
  return results;
}

Results VmapCall::leading(const std::vector<std::string>& arguments) {
  if (!only(arguments)) return loop();
  for (const std::string& argument : arguments) {
    const size_t i = index(argument);
    size_t j = 0;
    arguments_[i] = map_tensors(arguments_[i], [&](const at::Tensor& tensor) {
      return batched_[i][j++] ? tensor : tensor.unsqueeze(0).expand_symint([&] {
        auto sizes = tensor.sym_sizes().vec();
        sizes.insert(sizes.begin(), size_);
        return sizes;
      }());
    });
  }
  return call();
}

Results VmapCall::fold(const std::vector<std::string>& arguments) {
  // Folding may copy, and a write into a copy would be lost.
  if (op_.mutates || !only(arguments) || size_ == 0) return loop();
  c10::SymInt extent = 1;
  bool scalar = false;
  for (const std::string& argument : arguments) {
    const size_t i = index(argument);
    size_t j = 0;
    for_each_tensor(arguments_[i], [&](const at::Tensor& tensor) {
      const int64_t own = tensor.defined() && batched_[i][j] ? 1 : 0;
      if (tensor.defined() && tensor.dim() <= own) scalar = true;
      if (tensor.defined() && tensor.dim() > own && extent == 1) extent = tensor.sym_size(own);
      if (tensor.defined()) ++j;
    });
  }
  if (scalar) return loop();
  for (const std::string& argument : arguments) {
    const size_t i = index(argument);
    size_t j = 0;
    arguments_[i] = map_tensors(arguments_[i], [&](const at::Tensor& tensor) {
      const at::Tensor whole = batched_[i][j++] ? tensor : tensor.unsqueeze(0);
      auto sizes = whole.sym_sizes().vec();
      sizes[0] = size_;
      if (sizes[1] == 1) sizes[1] = extent;
      return whole.expand_symint(sizes).flatten(0, 1);
    });
  }
  Results results = call();
  for (at::Tensor& result : results)
    if (result.defined()) result = result.unflatten_symint(0, {size_, result.sym_size(0) / size_});
  return results;
}

Results VmapCall::loop() {
  const BoxedValues all = arguments_;
  const int64_t samples = size_.guard_int(__FILE__, __LINE__);
  std::vector<Results> parts;
  // For an empty batch, one sample of zeros determines the shapes of the results.
  for (int64_t b = 0; b < std::max<int64_t>(samples, 1); ++b) {
    for (size_t i = 0; i < all.size(); ++i) {
      size_t j = 0;
      arguments_[i] = map_tensors(all[i], [&](const at::Tensor& tensor) {
        if (!batched_[i][j++]) return tensor;
        return samples ? tensor.select(0, b) : tensor.new_zeros_symint(tensor.sym_sizes().slice(1));
      });
    }
    parts.push_back(call());
  }
  arguments_ = all;
  Results results;
  for (size_t k = 0; k < parts[0].size(); ++k) {
    Results column;
    for (const Results& part : parts) column.push_back(part[k]);
    if (!column[0].defined())
      results.emplace_back();
    else
      results.push_back(samples ? at::stack(column) : column[0].unsqueeze(0).narrow(0, 0, 0));
  }
  return results;
}

struct VmapKernel final : c10::OperatorKernel {
  explicit VmapKernel(std::shared_ptr<OperatorRecord> operation) : op(std::move(operation)) {}
  std::shared_ptr<OperatorRecord> op;

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, BoxedValues* stack) {
    const int64_t level = functorch::maybeCurrentDynamicLayer()->layerId();
    c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::FuncTorchBatched);
    const auto last = torch::jit::last(*stack, op->arguments);
    VmapCall call(*op, BoxedValues(last.begin(), last.end()));
    torch::jit::drop(*stack, op->arguments);
    std::optional<size_t> batched;
    for (size_t i = 0; i < op->arguments; ++i)
      call.arguments_[i] = map_tensors(call.arguments_[i], [&](const at::Tensor& wrapped) {
        auto [tensor, extent] = functorch::unwrapTensorAtLevel(wrapped, level);
        call.batched_[i].push_back(extent.has_value());
        if (!extent) return tensor;
        batched = i;
        tensor = tensor.movedim(*extent, 0);
        call.size_ = tensor.sym_size(0);
        return tensor;
      });
    if (!batched) {
      handle.callBoxed(call.arguments_);
      for (c10::IValue& value : call.arguments_) stack->push_back(std::move(value));
      return;
    }
    const Results results = guarded(op->body->name, [&] {
      require_batched_writes(call, *batched);
      return op->vmap ? op->vmap(call) : call.loop();
    });
    push(call, results, level, stack);
  }

 private:
  void require_batched_writes(const VmapCall& call, size_t batched) const {
    const auto& arguments = op->schema.arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::AliasInfo* alias = arguments[i].alias_info();
      const std::vector<bool>& tensors = call.batched_[i];  // for each tensor of a list; empty for None
      if (alias && alias->isWrite() && std::find(tensors.begin(), tensors.end(), false) != tensors.end())
        fail(ErrorKind::value, op->name, ": vmap: '", arguments[i].name(),
             "' is written for each sample of '", arguments[batched].name(),
             "', but has no batch extent; give it one (in_dims)");
    }
  }
  void push(const VmapCall& call, const Results& results, int64_t level, BoxedValues* stack) const {
    const auto wrap = [&](const at::Tensor& tensor) {
      return tensor.defined() ? functorch::makeBatched(tensor, std::optional<int64_t>(0), level) : tensor;
    };
    size_t k = 0, total = 0;
    for (const int count : call.list_sizes_) total += count < 0 ? 1 : count;
    if (call.list_sizes_.size() != op->results || total != results.size())
      raise(op->body->name, ErrorKind::runtime,
            str("vmap: the rule returned ", results.size(), " tensors, but the operator has ", total));
    for (const int count : call.list_sizes_) {
      if (count < 0) {
        stack->emplace_back(wrap(results[k++]));
        continue;
      }
      std::vector<at::Tensor> list;
      for (int j = 0; j < count; ++j) list.push_back(wrap(results[k++]));
      stack->emplace_back(std::move(list));
    }
  }
};

torch::CppFunction vmap_kernel(std::shared_ptr<OperatorRecord> op) {
  return boxed_kernel<VmapKernel>(std::move(op));
}

}  // namespace tile
