// The record of one operator, and code shared by the dispatcher kernels in the other files.
#pragma once
#include <c10/core/DeviceGuard.h>

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "driver/assert_buffer.h"
#include "torch/op.h"
#include "torch/versions.h"

namespace tile {

// The value that each argument of the gradient operator gets, and the arguments that each of its results is
// the gradient of.
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
  uint64_t made = 0;  // definitions() when the plan was made
};

// The author's functions; an operator that saves results shares them with its hidden twin.
struct OperatorBody {
  std::string name;   // the name that the user calls
  std::string error;  // the reason why it cannot be used, or empty
  ErrorKind error_kind = ErrorKind::runtime;
  BoxedFunction outputs, saved_outputs, run;
  size_t results = 0, saved = 0;
  // Gradients that the forward may compute: the argument and the saved result, as indices.
  struct EarlyGradient {
    size_t argument, result;
  };
  std::vector<EarlyGradient> early;
  // The compiler chooses what is saved: nothing is for calls whose sizes are not known, or that a transform
  // takes apart.
  bool chosen_saves = false;
  // The compiler adds one saved result: the list of tiles that run's launches save. The author's run has no
  // parameter for it.
  bool saves_launches = false;
  std::string scale;     // the operator that multiplies them by the gradient of the result
  std::string in_place;  // the operator whose first gradient replaces that of the result
};

enum class AutocastPolicy { keep, lower, fp32 };

struct OperatorRecord {
  OperatorRecord(c10::FunctionSchema declared, std::shared_ptr<OperatorBody> functions, Location location);
  std::string name;
  c10::FunctionSchema schema;
  Location where;
  std::shared_ptr<OperatorBody> body;
  bool saving = false;  // true for the hidden twin, whose results include the saved ones
  bool mutates = false;
  size_t arguments = 0, results = 0;
  std::vector<c10::TypeKind> kinds;      // of the arguments
  std::vector<size_t> tensor_arguments;  // the arguments that hold tensors
  std::optional<c10::OperatorHandle> handle;
  std::shared_ptr<OperatorRecord> saver;    // the hidden twin of this one
  std::shared_ptr<OperatorRecord> forward;  // the hidden operator of forward mode; null: there is none
  bool is_forward = false;                  // true for that one
  std::shared_ptr<OperatorRecord> reverse;  // the hidden operator of derived gradients; null: there is none
  bool is_reverse = false;                  // true for that one
  std::set<std::string> constants;          // arguments without a derived gradient
  std::string gradient;                     // the gradient operator's name, or empty
  std::function<VmapCall::Results(VmapCall&)> vmap;
  AutocastPolicy autocast_cpu = AutocastPolicy::keep, autocast_cuda = AutocastPolicy::keep;

  std::mutex plan_mutex;
  std::shared_ptr<const GradientPlan> plan;  // resolved at first use
};

// Results without a name are called `out`, or `out0`, `out1`, …
std::string result_name(const c10::FunctionSchema& schema, size_t k);
// Returns the type as a schema writes it: "Tensor?", "SymInt[]", "bool[2]".
std::string type_text(const c10::Argument& argument);
// Returns the names as an error lists them.
std::string argument_names(const c10::FunctionSchema& schema);

// Throws Error if an operator cannot have this schema.
c10::FunctionSchema parse_schema(const std::string& text);

// A value that a lambda must take or return, by name and schema type.
struct Expected {
  std::string name, type;
  bool result;
};
std::vector<Expected> expected_arguments(const c10::FunctionSchema& schema);
std::vector<Expected> expected_results(const c10::FunctionSchema& schema, size_t from, size_t to);
std::vector<Expected> operator+(std::vector<Expected> a, const std::vector<Expected>& b);
// Throw Error if they differ. `what`: the name of the lambda. `concrete`: no extent is symbolic.
void check_parameters(const OperatorBody& body, const char* what, const BoxedFunction& function,
                      const std::vector<Expected>& expected, bool concrete);
void check_results(const OperatorBody& body, const char* what, BoxedFunction& function,
                   const std::vector<Expected>& expected);
// Throws Error if a name is not an argument, or one of `sums` is not a result.
void check_names(const OperatorRecord& op, const char* what, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& sums);

// Throws the stored error if the operator cannot run.
void require_usable(const OperatorRecord& op);

// Throws torch's exception class for our error kind, prefixed by the operator's name unless it is empty.
[[noreturn]] void raise(const std::string& name, ErrorKind kind, const std::string& text);
template <class F>
decltype(auto) guarded(const std::string& name, F function) {
  try {
    return function();
  } catch (const FailedAssertions& error) {  // may belong to another operator's kernels
    raise("", error.kind(), error.what());
  } catch (const Error& error) {
    raise(name, error.kind(), error.what());
  }
}

// Matches an operator with its gradient operator; throws Error if they do not match.
std::shared_ptr<const GradientPlan> gradient_plan(OperatorRecord& op);
// Returns the operator whose gradient `name` is, or "".
std::string gradient_of(const std::string& name);

// Returns the device of all tensors, or none if there is no tensor.
std::optional<at::Device> require_one_device(const OperatorRecord& op, const c10::IValue* values);
// Makes the device of all tensors current during its lifetime, because a CUDA stream belongs to a device.
class ArgumentsDevice {
 public:
  ArgumentsDevice(const OperatorRecord& op, const c10::IValue* values);
  bool is_cpu() const { return is_cpu_; }

 private:
  c10::OptionalDeviceGuard guard_;
  bool is_cpu_;
};
// The stack holds the arguments; the results are appended, including those of a hidden twin.
void allocate_results(const OperatorRecord& op, BoxedValues& stack);
// Fills the results that allocate_results has appended to the arguments from stack[base] on.
void fill_results(const OperatorRecord& op, size_t base, BoxedValues& stack);
// Returns true if a call may save what the compiler has chosen for its sizes: the sizes are numbers, and no
// tensor is a batch of vmap or a DTensor.
bool may_choose(const OperatorRecord& op, const c10::IValue* arguments);
// Returns true for an operator that is defined here, including hidden ones.
bool is_defined_here(const std::string& name);

// Returns the record of the hidden operator that also takes tangents, `Tensor? tangent_<argument>`, and whose
// results are those of `op` and then their tangents. Returns null if `op` writes into arguments, or takes or
// gives no tensors.
std::shared_ptr<OperatorRecord> forward_record(const OperatorRecord& op);
// Returns the arguments and their tangents, by name.
std::vector<std::string> with_tangents(const OperatorRecord& op, std::vector<std::string> arguments);

// Returns the record of the hidden operator that takes the gradients of the results and the arguments of
// `op`, and returns the gradients of its tensors. Throws an error for an operator that has no such gradients.
std::shared_ptr<OperatorRecord> reverse_record(const OperatorRecord& op);

// The kernels of each file as functions for the dispatcher.
torch::CppFunction run_kernel(std::shared_ptr<OperatorRecord> op);           // CPU, CUDA
torch::CppFunction meta_kernel(std::shared_ptr<OperatorRecord> op);          // Meta
torch::CppFunction forward_run_kernel(std::shared_ptr<OperatorRecord> op);   // CPU, CUDA
torch::CppFunction forward_meta_kernel(std::shared_ptr<OperatorRecord> op);  // Meta
torch::CppFunction reverse_run_kernel(std::shared_ptr<OperatorRecord> op);   // CPU, CUDA
torch::CppFunction reverse_meta_kernel(std::shared_ptr<OperatorRecord> op);  // Meta
torch::CppFunction autograd_kernel(std::shared_ptr<OperatorRecord> op);      // Autograd
torch::CppFunction version_kernel(std::shared_ptr<OperatorRecord> op);       // ADInplaceOrView
torch::CppFunction vmap_kernel(std::shared_ptr<OperatorRecord> op);          // FuncTorchBatched
torch::CppFunction autocast_kernel(std::shared_ptr<OperatorRecord> op, c10::DeviceType device);

template <class Kernel, class... A>
torch::CppFunction boxed_kernel(A&&... arguments) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(std::forward<A>(arguments)...));
}

inline c10::List<bool> bools(const std::vector<bool>& values) {
  c10::List<bool> list;
  for (const bool value : values) list.push_back(value);
  return list;
}

// Calls f(tensor) for each tensor of a boxed value: the tensor itself, the elements of a list, or an
// undefined tensor for None. The references live as long as the value.
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
// Does the same for each tensor among an operator's arguments.
template <class F>
void for_each_tensor(const OperatorRecord& op, const c10::IValue* arguments, F f) {
  for (const size_t i : op.tensor_arguments)
    if (const c10::IValue& value = arguments[i]; value.isTensor()) [[likely]]
      f(value.toTensor());
    else
      for_each_tensor(value, f);
}
// Returns the value with each defined tensor replaced by f(tensor).
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
