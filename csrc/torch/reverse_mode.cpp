// Reverse mode: the hidden operator that computes the gradients of another operator's arguments, from the
// launches of its `run`.
#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "runtime/launch_observer.h"
#include "torch/context.h"
#include "torch/overlap.h"
#include "torch/record.h"
#include "torch/reverse_record.h"

namespace tile {

using c10::IValue;

namespace {

bool may_have_gradient(const at::Tensor& tensor) {
  return tensor.defined() && at::isFloatingType(tensor.scalar_type()) && tensor.itemsize() > 1;
}
bool is_mask(const c10::Argument& argument) { return argument.name() == "output_mask"; }

// A call of the hidden operator: the gradients of the results, the arguments without a mask of results, and
// the mask of the gradients that are wanted.
class ReverseCall {
 public:
  ReverseCall(const OperatorRecord& op, const IValue* values) : op_(op) {
    for (size_t k = 0; k < op.results; ++k) {
      std::vector<at::Tensor> list;
      for_each_tensor(*values++, [&](const at::Tensor& each) { list.push_back(each); });
      incoming_.push_back(list.empty() ? at::Tensor() : list[0]);
    }
    for (const c10::Argument& argument : op.schema.arguments()) {
      if (!is_mask(argument)) {
        arguments.push_back(*values++);
        continue;
      }
      std::vector<bool> wanted;
      for (const at::Tensor& each : incoming_) wanted.push_back(each.defined());
      arguments.push_back(bools(wanted));
    }
    if (op.body->saves_launches)
      for_each_tensor(*values++, [&](const at::Tensor& each) { saved_.push_back(each); });
    const c10::List<bool> mask = values->toBoolList();
    for (const bool each : mask) mask_.push_back(each);
  }

  // One for each argument with tensors; undefined where none is wanted or there is none.
  std::vector<at::Tensor> allocate() const {
    std::vector<at::Tensor> gradients;
    for (size_t i = 0; i < op_.tensor_arguments.size(); ++i) {
      const size_t argument = op_.tensor_arguments[i];
      const IValue& value = arguments[argument];
      const bool wanted = mask_.at(i) && value.isTensor() && may_have_gradient(value.toTensor()) &&
                          !op_.constants.contains(op_.schema.arguments()[argument].name());
      gradients.push_back(wanted ? result_like(value.toTensor()) : at::Tensor());
    }
    return gradients;
  }

  void run(std::vector<at::Tensor>& gradients) {
    give_own_memory(gradients);
    ReverseRecord record(op_.body->name);
    for (size_t i = 0; i < op_.tensor_arguments.size(); ++i) {
      const IValue& value = arguments[op_.tensor_arguments[i]];
      for_each_tensor(value, [&](const at::Tensor& tensor) {
        record.add_argument(tensor, value.isTensor() && gradients[i].defined());
      });
    }
    BoxedValues stack = arguments;
    {
      const at::RecordFunctionGuard recorded(true);
      allocate_results(op_, stack);
      for (size_t k = 0; k < op_.results; ++k)
        for_each_tensor(stack[op_.arguments + k], [&](const at::Tensor& each) { record.add_result(each); });
      fill_results(op_, 0, stack);
    }
    record.finish();
    record.use_saved(saved_);
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined())
        record.set_target(arguments[op_.tensor_arguments[i]].toTensor(), gradients[i]);
    for (size_t k = 0; k < op_.results; ++k)
      if (const IValue& result = stack[op_.arguments + k];
          incoming_[k].defined() && result.isTensor() && result.toTensor().defined())
        record.set_incoming(result.toTensor(), incoming_[k]);
    record.compute_gradients();
  }

  BoxedValues arguments;

 private:
  // Two arguments may be one tensor, or parts of one, and elements may share memory: their gradients differ.
  void give_own_memory(const std::vector<at::Tensor>& gradients) {
    std::vector<const c10::StorageImpl*> seen;
    for (size_t i = 0; i < gradients.size(); ++i) {
      IValue& value = arguments[op_.tensor_arguments[i]];
      if (!value.isTensor() || !may_have_gradient(value.toTensor()) || !value.toTensor().numel()) continue;
      const at::Tensor& tensor = value.toTensor();
      const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
      if (std::find(seen.begin(), seen.end(), storage) != seen.end() || overlaps_itself(tensor))
        value = tensor.clone(at::MemoryFormat::Contiguous);
      seen.push_back(value.toTensor().storage().unsafeGetStorageImpl());
    }
  }

  const OperatorRecord& op_;
  std::vector<at::Tensor> incoming_, saved_;
  std::vector<bool> mask_;
};

struct ReverseKernelOf : c10::OperatorKernel {
  explicit ReverseKernelOf(std::shared_ptr<OperatorRecord> operation) : op(std::move(operation)) {}
  std::shared_ptr<OperatorRecord> op;
  size_t base_of(const BoxedValues& stack) const { return stack.size() - op->reverse->arguments; }
  static void replace(BoxedValues& stack, size_t base, std::vector<at::Tensor> gradients) {
    stack.resize(base);
    for (at::Tensor& gradient : gradients) stack.emplace_back(std::move(gradient));
  }
};

struct ReverseRunKernel final : ReverseKernelOf {
  using ReverseKernelOf::ReverseKernelOf;
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, BoxedValues* stack) {
    const size_t base = base_of(*stack);
    guarded(op->body->name, [&] {
      require_usable(*op);
      const ArgumentsDevice device(*op->reverse, stack->data() + base);
      ReverseCall call(*op, stack->data() + base);
      std::vector<at::Tensor> gradients = call.allocate();
      call.run(gradients);
      replace(*stack, base, std::move(gradients));
    });
  }
};

struct ReverseMetaKernel final : ReverseKernelOf {
  explicit ReverseMetaKernel(std::shared_ptr<OperatorRecord> operation)
      : ReverseKernelOf(operation), run(std::move(operation)) {}
  ReverseRunKernel run;
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, BoxedValues* stack) {
    if (LaunchObserver::of_thread()) return run(handle, keys, stack);
    const size_t base = base_of(*stack);
    guarded(op->body->name, [&] {
      require_usable(*op);
      require_one_device(*op->reverse, stack->data() + base);
      replace(*stack, base, ReverseCall(*op, stack->data() + base).allocate());
    });
  }
};

}  // namespace

std::shared_ptr<OperatorRecord> reverse_record(const OperatorRecord& op) {
  const size_t colons = op.name.find("::") + 2;
  const std::string name = op.name.substr(0, colons) + (op.name[colons] == '_' ? "" : "_") +
                           op.name.substr(colons) + "_reverse_mode";
  const c10::TypePtr one = c10::OptionalType::create(c10::TensorType::get());
  std::vector<c10::Argument> arguments, results;
  for (size_t k = 0; k < op.results; ++k) {
    if (type_text(op.schema.returns()[k]) != "Tensor")
      fail(ErrorKind::unsupported, op.body->name,
           ": the compiler derives no gradient of a list of results, '", result_name(op.schema, k),
           "'; write it by hand");
    arguments.emplace_back("grad_" + result_name(op.schema, k), one);
  }
  for (const c10::Argument& argument : op.schema.arguments()) {
    const std::string type = type_text(argument);
    if (is_mask(argument)) continue;
    if (type.starts_with("Tensor") && type.find('[') != std::string::npos)
      fail(ErrorKind::unsupported, op.body->name,
           ": the compiler derives no gradient of a list of tensors, '", argument.name(),
           "'; write it by hand");
    arguments.emplace_back(argument.name(), argument.type(), argument.real_type(), argument.N());
    if (type.starts_with("Tensor")) results.emplace_back("grad_" + argument.name(), c10::TensorType::get());
  }
  if (results.empty() || op.results == 0)
    fail(ErrorKind::value, op.body->name, ": grad_by_compiler: has no tensors among its ",
         op.results == 0 ? "results" : "arguments", ", so there is no gradient; remove it");
  if (op.body->saves_launches) arguments.emplace_back("saved_values", c10::ListType::ofTensors());
  arguments.emplace_back("output_mask", c10::ListType::ofBools(), static_cast<int32_t>(results.size()));
  auto reverse = std::make_shared<OperatorRecord>(
      c10::FunctionSchema(name, "", std::move(arguments), std::move(results)), op.body, op.where);
  reverse->is_reverse = true;
  return reverse;
}

void call_operator(const char* name, std::vector<IValue>& stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
}

torch::CppFunction reverse_run_kernel(std::shared_ptr<OperatorRecord> op) {
  return boxed_kernel<ReverseRunKernel>(std::move(op));
}
torch::CppFunction reverse_meta_kernel(std::shared_ptr<OperatorRecord> op) {
  return boxed_kernel<ReverseMetaKernel>(std::move(op));
}

}  // namespace tile
