// The record of one operator, and what the dispatcher kernels of the other files share.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "driver/assert_buffer.h"
#include "torch/op.h"
#include "torch/versions.h"

namespace tile {

// Which value each argument of the gradient operator gets, and which arguments each of its results is the
// gradient of.
struct GradientPlan {
  enum class Role { gradient, argument, result, mask };
  struct Input {
    Role role;
    size_t index;
    bool operator==(const Input&) const = default;
  };
  std::vector<Input> inputs;
  std::vector<std::vector<size_t>> slots;
  std::string name;
  uint64_t made = 0;  // definitions() when it was matched
};

// The author's functions; an operator that saves results shares them with its hidden twin.
struct OperatorBody {
  std::string name;   // of the operator that the user calls
  std::string error;  // why it cannot be used
  ErrorKind error_kind = ErrorKind::runtime;
  BoxedFunction outputs, saved_outputs, run;
  size_t results = 0, saved = 0;
};

enum class AutocastPolicy { keep, lower, fp32 };

struct OperatorRecord {
  OperatorRecord(c10::FunctionSchema declared, std::shared_ptr<OperatorBody> functions, Location location);
  std::string name;
  c10::FunctionSchema schema;
  Location where;
  std::shared_ptr<OperatorBody> body;
  bool saving = false;  // the hidden twin: its results include the saved ones
  bool mutates = false;
  size_t arguments = 0, results = 0;
  std::vector<c10::TypeKind> kinds;      // of the arguments
  std::vector<size_t> tensor_arguments;  // those that hold tensors
  std::optional<c10::OperatorHandle> handle;
  std::shared_ptr<OperatorRecord> saver;  // the hidden twin of this one
  std::string gradient;                   // the operator's name; empty: none
  std::function<VmapCall::Results(VmapCall&)> vmap;
  AutocastPolicy autocast_cpu = AutocastPolicy::keep, autocast_cuda = AutocastPolicy::keep;

  std::mutex plan_mutex;
  std::shared_ptr<const GradientPlan> plan;  // resolved at first use
};

// Results without a name are `out`, or `out0`, `out1`, …
std::string result_name(const c10::FunctionSchema& schema, size_t k);
// "Tensor?", "SymInt[]", "bool[2]", as a schema writes it.
std::string type_text(const c10::Argument& argument);
// The names, as an error lists them.
std::string argument_names(const c10::FunctionSchema& schema);

// Throws Error where the text is no schema that an operator can have.
c10::FunctionSchema parse_schema(const std::string& text);

// A value that a lambda must take or return: its name and schema type.
struct Expected {
  std::string name, type;
  bool result;
};
std::vector<Expected> expected_arguments(const c10::FunctionSchema& schema);
std::vector<Expected> expected_results(const c10::FunctionSchema& schema, size_t from, size_t to);
std::vector<Expected> operator+(std::vector<Expected> a, const std::vector<Expected>& b);
// Throw Error where they differ. `what`: the lambda; `concrete`: no extent is symbolic.
void check_parameters(const OperatorBody& body, const char* what, const BoxedFunction& function,
                      const std::vector<Expected>& expected, bool concrete);
void check_results(const OperatorBody& body, const char* what, BoxedFunction& function,
                   const std::vector<Expected>& expected);
// Throws Error where a name is no argument, or one of `sums` no result.
void check_names(const OperatorRecord& op, const char* what, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& sums);

// Throws why the operator cannot run, if so.
void require_usable(const OperatorRecord& op);

// Errors of ours become torch's exception classes here, with the operator's name, if any, in front.
[[noreturn]] void raise(const std::string& name, ErrorKind kind, const std::string& text);
template <class F>
decltype(auto) guarded(const std::string& name, F function) {
  try {
    return function();
  } catch (const FailedAssertions& error) {  // of another operator's kernels
    raise("", error.kind(), error.what());
  } catch (const Error& error) {
    raise(name, error.kind(), error.what());
  }
}

// The match between an operator and its gradient operator; throws Error where there is none.
std::shared_ptr<const GradientPlan> gradient_plan(OperatorRecord& op);
// The operator whose gradient `name` is, or "".
std::string gradient_of(const std::string& name);

// The kernels of each file, as functions for the dispatcher.
torch::CppFunction run_kernel(std::shared_ptr<OperatorRecord> op);       // CPU, CUDA
torch::CppFunction meta_kernel(std::shared_ptr<OperatorRecord> op);      // Meta
torch::CppFunction autograd_kernel(std::shared_ptr<OperatorRecord> op);  // Autograd
torch::CppFunction version_kernel(std::shared_ptr<OperatorRecord> op);   // ADInplaceOrView
torch::CppFunction vmap_kernel(std::shared_ptr<OperatorRecord> op);      // FuncTorchBatched
torch::CppFunction autocast_kernel(std::shared_ptr<OperatorRecord> op, c10::DeviceType device);

template <class Kernel, class... A>
torch::CppFunction boxed_kernel(A&&... arguments) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(std::forward<A>(arguments)...));
}

// Calls f(tensor) for each tensor of a boxed value: itself, the elements of a list, undefined where an
// optional is None. The references last as long as the value.
template <class F>
void for_each_tensor(const c10::IValue& value, F f) {
  if (value.isTensor()) {
    f(value.toTensor());
  } else if (!value.isList()) {
    return;
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    static const at::Tensor undefined;
    for (const c10::IValue& each : value.toListRef()) f(each.isTensor() ? each.toTensor() : undefined);
  }
}
// The same for each tensor among an operator's arguments: f(tensor).
template <class F>
void for_each_tensor(const OperatorRecord& op, const c10::IValue* arguments, F f) {
  for (const size_t i : op.tensor_arguments)
    if (const c10::IValue& value = arguments[i]; value.isTensor()) [[likely]]
      f(value.toTensor());
    else
      for_each_tensor(value, f);
}
// The value with each defined tensor replaced by f(tensor).
template <class F>
c10::IValue map_tensors(const c10::IValue& value, F f) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(f(value.toTensor())) : value;
  if (value.isTensorList()) {
    std::vector<at::Tensor> tensors = value.toTensorVector();
    for (at::Tensor& tensor : tensors) tensor = f(tensor);
    return tensors;
  }
  if (value.isOptionalTensorList()) {
    std::vector<std::optional<at::Tensor>> tensors = value.toOptionalTensorVector();
    for (std::optional<at::Tensor>& tensor : tensors)
      if (tensor && tensor->defined()) tensor = f(*tensor);
    return tensors;
  }
  return value;
}

}  // namespace tile
