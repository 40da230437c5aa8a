// Forward mode: an operator's `run` once more, in which each launch also computes tangents.
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "runtime/launch_observer.h"
#include "runtime/tangent_memory.h"
#include "torch/overlap.h"
#include "torch/record.h"
#include "torch/storage_memory.h"
#include "torch/transparent.h"

namespace tile {

using c10::IValue;

namespace {

// 8-bit floats are quantised numbers.
bool may_have_tangent(const at::Tensor& tensor) {
  return tensor.defined() && at::isFloatingType(tensor.scalar_type()) && tensor.itemsize() > 1;
}

bool lie_alike(const at::Tensor& x, const at::Tensor& y) {
  for (int64_t axis = 0; axis < x.dim(); ++axis)
    if (x.size(axis) > 1 && x.stride(axis) != y.stride(axis)) return false;
  return true;
}
at::Tensor empty_alike(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
}

// While it lives, the calls of torch on this thread are those of Tangents, which does not look at them.
class OwnCalls {
 public:
  explicit OwnCalls(bool& flag) : flag_(flag), before_(std::exchange(flag, true)) {}
  ~OwnCalls() { flag_ = before_; }
  OwnCalls(const OwnCalls&) = delete;

 private:
  bool& flag_;
  bool before_;
};

// The tangents of all memory that `run` accesses. Memory that it allocates has the tangent 0 until a launch
// writes it.
class Tangents final : public TangentMemory {
 public:
  explicit Tangents(const std::string& name) : name_(name) {
    callback_ = at::addThreadLocalCallback(at::RecordFunctionCallback(see).needsInputs(true).scopes(
        {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
  }
  ~Tangents() override { at::removeCallback(callback_); }

  // An argument; `tangent` is undefined, or lies like the tensor.
  void add_argument(const at::Tensor& tensor, const at::Tensor& tangent) {
    char* const begin = memory_.of(tensor);
    if (begin) regions_.push_back({tensor.storage(), begin, begin + span_of(tensor), false, tangent});
  }
  // A result, before it is filled. Returns its tangent.
  at::Tensor add_result(const at::Tensor& tensor) {
    char* const begin = memory_.of(tensor.storage().unsafeGetStorageImpl());
    if (!begin) return zeros_alike(tensor);
    Region* region = find(begin);
    if (!region) region = &add_storage(tensor.storage(), begin);
    make(*region);
    return view_of(*region, tensor);
  }
  void require_no_error() const {
    if (!error_.empty()) fail(ErrorKind::unsupported, error_);
  }

  char* note(void* storage) override {
    auto* const impl = static_cast<c10::StorageImpl*>(storage);
    char* const begin = memory_.of(impl);
    if (!begin || !impl->nbytes()) return begin;
    for (const Region& region : regions_)
      if (region.storage.unsafeGetStorageImpl() == impl) return begin;
    add_storage(c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl)), begin);
    return begin;
  }
  std::optional<ArrayArgument> tangent(const ArrayArgument& array, bool make_it) override {
    for (int axis = 0; axis < array.rank; ++axis)
      if (array.sizes[static_cast<size_t>(axis)] == 0) return std::nullopt;
    Region* const region = find(array.data);
    if (make_it && (!region || (!region->tangent.defined() && !region->owned)))
      fail(ErrorKind::unsupported, name_,
           ": writes memory that is neither a result nor allocated by its run, so it has no forward-mode "
           "derivative");
    if (region && make_it) make(*region);
    if (!region || !region->tangent.defined()) return std::nullopt;
    ArrayArgument tangents = array;
    tangents.data = memory_.of(region->tangent) + (static_cast<char*>(array.data) - region->begin);
    return tangents;
  }

 private:
  struct Region {
    c10::Storage storage;  // kept, so that no other memory gets its addresses
    char *begin, *end;
    bool owned;          // allocated by `run`, or a result
    at::Tensor tangent;  // its first element belongs to `begin`; undefined: zero
  };

  static at::Tensor zeros_alike(const at::Tensor& tensor) { return empty_alike(tensor).zero_(); }

  Region& add_storage(const c10::Storage& storage, char* begin) {
    // Nothing but its region holds memory that run has freed.
    std::erase_if(regions_, [&](const Region& region) {
      if (!region.owned || region.storage.use_count() > 1) return false;
      memory_.forget(region.storage.unsafeGetStorageImpl());
      return true;
    });
    const auto bytes = static_cast<int64_t>(storage.nbytes());
    return regions_.emplace_back(Region{storage, begin, begin + bytes, true, {}});
  }
  Region* find(const void* data) {
    for (Region& region : regions_)
      if (data >= region.begin && data < region.end) return &region;
    return nullptr;
  }
  void make(Region& region) {
    if (region.tangent.defined()) return;
    const OwnCalls own(own_);
    region.tangent = at::zeros({region.end - region.begin},
                               at::TensorOptions().dtype(at::kByte).device(region.storage.device()));
  }
  // Returns the tangent of a tensor in the region.
  at::Tensor view_of(const Region& region, const at::Tensor& tensor) {
    const OwnCalls own(own_);
    const int64_t bytes = memory_.of(tensor) - region.begin;
    at::Tensor whole = region.tangent;
    if (whole.scalar_type() != tensor.scalar_type()) whole = whole.view(tensor.scalar_type());
    whole = whole.as_strided(tensor.sizes(), tensor.strides(),
                             whole.storage_offset() + bytes / static_cast<int64_t>(tensor.itemsize()));
    return whole;
  }
  Region* region_of(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0) return nullptr;
    return find(memory_.of(tensor));
  }
  bool is_active(const at::Tensor& tensor) {
    if (!may_have_tangent(tensor)) return false;
    const Region* region = region_of(tensor);
    return region && region->tangent.defined();
  }

  // Copies tangents with numbers.
  void copy(const at::Tensor& to, const at::Tensor& from) {
    const bool active = is_active(from);
    if (!may_have_tangent(to) || to.numel() == 0 || (!active && !is_active(to))) return;
    note(to.storage().unsafeGetStorageImpl());
    Region& region = *region_of(to);
    make(region);
    const at::Tensor tangent = view_of(region, to);
    const at::Tensor source = active ? view_of(*region_of(from), from) : at::Tensor();
    const OwnCalls own(own_);
    if (active)
      tangent.copy_(source);
    else
      tangent.zero_();
  }

  // Called before each operation of torch.
  static std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& function) {
    Derivation* const derivation = Derivation::of_thread();
    auto* const own = derivation ? static_cast<Tangents*>(derivation->tangents()) : nullptr;
    if (!own || own->own_ || !own->error_.empty()) return nullptr;
    try {
      own->see_call(function);
    } catch (const std::exception& error) {
      own->error_ = error.what();
    }
    return nullptr;
  }
  void see_call(const at::RecordFunction& function) {
    const auto name = function.operator_name();
    if (!name) return;
    const c10::ArrayRef<const IValue> inputs = function.inputs();
    if (name->name == "aten::copy_") return copy(inputs[0].toTensor(), inputs[1].toTensor());
    bool active = false;
    for (const IValue& value : inputs)
      for_each_tensor(value, [&](const at::Tensor& tensor) { active |= is_active(tensor); });
    if (!active || is_defined_here(name->name)) return;
    const bool fills = name->name == "aten::fill_";
    // Torch fills with a tensor by copy_, which is seen, too.
    if (fills && inputs[1].isTensor() && is_active(inputs[1].toTensor())) return;
    if (fills || name->name == "aten::zero_") {
      const at::Tensor tangent = view_of(*region_of(inputs[0].toTensor()), inputs[0].toTensor());
      const OwnCalls own(own_);
      tangent.zero_();
      return;
    }
    if (is_transparent(*name, function)) return;
    error_ =
        name_ + ": its run calls " + name->name +
        " on a tensor with a tangent, so it has no forward-mode derivative; compute it in a kernel, or use "
        "reverse mode";
  }

  const std::string& name_;
  at::CallbackHandle callback_;
  std::vector<Region> regions_;
  StorageMemory memory_;
  std::string error_;
  bool own_ = false;  // true: the calls of torch are those of this class
};

// The arguments of a call, in which each tensor with a tangent has memory of its own.
class Arguments {
 public:
  // `values`: the arguments, then the tangents of tensor_arguments.
  Arguments(const OperatorRecord& op, const IValue* values) : stack(values, values + op.arguments) {
    const IValue* tangent = values + op.arguments;
    for (const size_t i : op.tensor_arguments) {
      std::vector<at::Tensor> list;
      for_each_tensor(*tangent++, [&](const at::Tensor& each) { list.push_back(each); });
      size_t j = 0;
      std::vector<at::Tensor> own;
      for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
        own.push_back(tensor);
        add(op, i, own.back(), j < list.size() ? list[j] : at::Tensor());
        ++j;
      });
      if (!list.empty() && list.size() != j)
        fail(ErrorKind::value, op.body->name, ": '", op.schema.arguments()[i].name(), "' has ", j,
             " tensors and ", list.size(), " tangents; give one for each, or none");
      j = 0;
      stack[i] = map_tensors(stack[i], [&](const at::Tensor&) {
        while (!own[j].defined()) ++j;
        return own[j++];
      });
    }
  }
  BoxedValues stack;
  std::vector<std::pair<at::Tensor, at::Tensor>>
      pairs;  // tensors, and tangents that lie like them or are undefined

 private:
  void add(const OperatorRecord& op, size_t argument, at::Tensor& tensor, at::Tensor tangent) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    if (!may_have_tangent(tensor)) tangent = at::Tensor();
    if (tangent.defined() &&
        (tangent.sizes() != tensor.sizes() || tangent.scalar_type() != tensor.scalar_type()))
      fail(ErrorKind::value, op.body->name, ": the tangent of '", op.schema.arguments()[argument].name(),
           "' is ", tangent.scalar_type(), " of shape ", tangent.sizes(), ", the argument ",
           tensor.scalar_type(), " of shape ", tensor.sizes(), "; they must be equal");
    // Two arguments may be one tensor with two tangents.
    bool shared = false;
    for (const auto& [other, its] : pairs)
      shared |= other.storage().unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl() &&
                (tangent.defined() || its.defined());
    const bool folded = tangent.defined() && overlaps_itself(tensor) && !lie_alike(tensor, tangent);
    if (folded || (shared && overlaps_itself(tensor)))
      tensor = tensor.clone(at::MemoryFormat::Contiguous);
    else if (shared)
      tensor = empty_alike(tensor).copy_(tensor);
    if (tangent.defined() && !lie_alike(tensor, tangent)) tangent = empty_alike(tensor).copy_(tangent);
    pairs.emplace_back(tensor, tangent);
  }
};

// Appends the tangents of the results in stack[first…], each made by `make`.
template <class F>
void append_tangents(BoxedValues& stack, size_t first, F make) {
  const size_t end = stack.size();
  for (size_t k = first; k < end; ++k) {
    if (stack[k].isTensor()) {
      const at::Tensor& result = stack[k].toTensor();
      stack.emplace_back(may_have_tangent(result) ? make(result) : at::Tensor());
      continue;
    }
    std::vector<at::Tensor> list;
    for_each_tensor(stack[k], [&](const at::Tensor& result) {
      list.push_back(may_have_tangent(result) ? make(result) : at::Tensor());
    });
    stack.emplace_back(std::move(list));
  }
}

struct ForwardRunKernel final : c10::OperatorKernel {
  explicit ForwardRunKernel(std::shared_ptr<OperatorRecord> operation) : op(std::move(operation)) {}
  std::shared_ptr<OperatorRecord> op;
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, BoxedValues* stack) {
    const size_t base = stack->size() - op->forward->arguments;
    guarded(op->body->name, [&] {
      require_usable(*op);
      const ArgumentsDevice device(*op->forward, stack->data() + base);
      BoxedValues results(stack->begin() + static_cast<std::ptrdiff_t>(base),
                          stack->begin() + static_cast<std::ptrdiff_t>(base + op->arguments));
      allocate_results(*op, results);
      Arguments arguments(*op, stack->data() + base);
      std::move(results.begin() + static_cast<std::ptrdiff_t>(op->arguments), results.end(),
                std::back_inserter(arguments.stack));
      run(arguments);
      stack->resize(base);
      std::move(arguments.stack.begin() + static_cast<std::ptrdiff_t>(op->arguments), arguments.stack.end(),
                std::back_inserter(*stack));
    });
  }

 private:
  // The results are behind the arguments; their tangents are appended.
  void run(Arguments& arguments) const {
    BoxedValues tangents;
    Tangents memory(op->body->name);
    for (const auto& [tensor, tangent] : arguments.pairs) memory.add_argument(tensor, tangent);
    BoxedValues& stack = arguments.stack;
    BoxedValues with_tangents = stack;
    append_tangents(with_tangents, op->arguments,
                    [&](const at::Tensor& result) { return memory.add_result(result); });
    const at::RecordFunctionGuard recorded(true);
    fill_results(*op, 0, stack);
    memory.require_no_error();
    stack = std::move(with_tangents);
  }
};

struct ForwardMetaKernel final : c10::OperatorKernel {
  explicit ForwardMetaKernel(std::shared_ptr<OperatorRecord> operation) : op(std::move(operation)), run(op) {}
  std::shared_ptr<OperatorRecord> op;
  ForwardRunKernel run;
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, BoxedValues* stack) {
    if (LaunchObserver::of_thread()) return run(handle, keys, stack);
    const size_t base = stack->size() - op->forward->arguments;
    guarded(op->body->name, [&] {
      require_usable(*op);
      require_one_device(*op->forward, stack->data() + base);
      stack->resize(base + op->arguments);
      allocate_results(*op, *stack);
      append_tangents(*stack, base + op->arguments, [](const at::Tensor& result) {
        return at::empty_strided_symint(result.sym_sizes(), result.sym_strides(), result.options());
      });
    });
    stack->erase(stack->begin() + static_cast<std::ptrdiff_t>(base),
                 stack->begin() + static_cast<std::ptrdiff_t>(base + op->arguments));
  }
};

}  // namespace

std::shared_ptr<OperatorRecord> forward_record(const OperatorRecord& op) {
  if (op.mutates || op.tensor_arguments.empty() || op.results == 0) return nullptr;
  const size_t colons = op.name.find("::") + 2;
  const std::string name = op.name.substr(0, colons) + (op.name[colons] == '_' ? "" : "_") +
                           op.name.substr(colons) + "_forward_mode";
  std::vector<c10::Argument> arguments = op.schema.arguments(), results;
  for (const size_t i : op.tensor_arguments) {
    const bool list = op.schema.arguments()[i].type()->str().find('[') != std::string::npos;
    const c10::TypePtr one = c10::OptionalType::create(c10::TensorType::get());
    arguments.emplace_back("tangent_" + op.schema.arguments()[i].name(),
                           list ? c10::TypePtr(c10::ListType::create(one)) : one, std::nullopt,
                           list ? c10::IValue(c10::List<std::optional<at::Tensor>>()) : c10::IValue(),
                           /*kwarg_only=*/true);
  }
  for (const char* prefix : {"", "tangent_"})
    for (size_t k = 0; k < op.results; ++k) {
      const c10::Argument& result = op.schema.returns()[k];
      results.emplace_back(prefix + result_name(op.schema, k), result.type(), result.real_type(), result.N());
    }
  auto forward = std::make_shared<OperatorRecord>(
      c10::FunctionSchema(name, "", std::move(arguments), std::move(results)), op.body, op.where);
  forward->is_forward = true;
  return forward;
}

std::vector<std::string> with_tangents(const OperatorRecord& op, std::vector<std::string> arguments) {
  const std::vector<std::string> names = arguments;
  for (const std::string& name : names)
    if (op.forward->schema.argumentIndexWithName("tangent_" + name)) arguments.push_back("tangent_" + name);
  return arguments;
}

torch::CppFunction forward_run_kernel(std::shared_ptr<OperatorRecord> op) {
  return boxed_kernel<ForwardRunKernel>(std::move(op));
}
torch::CppFunction forward_meta_kernel(std::shared_ptr<OperatorRecord> op) {
  return boxed_kernel<ForwardMetaKernel>(std::move(op));
}

}  // namespace tile
