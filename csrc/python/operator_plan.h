// Plans: how Python arguments become the boxed values of one schema, and calls of them.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python/raising.h"
#include "torch/op.h"

namespace tile::python {

// Converts the arguments of one schema. A new definition of the operator gets a new plan.
struct Plan {
  enum class Kind { tensor, integer, scalar_type, floating, number, boolean, text, integers, tensors, other };
  struct Parameter {
    Kind kind = Kind::other;
    bool optional = false, keyword_only = false;
    Owned name;  // interned, like the names of keywords
    std::optional<c10::IValue> standard;
  };
  uint64_t made;  // definitions() when the plan was made
  c10::OperatorHandle handle;
  std::vector<Parameter> parameters;
  size_t results;
};

// Returns null if torch has to make calls of this operator.
std::unique_ptr<Plan> plan_of(const std::string& name);

// Keeps the plan of an operator, and makes a new one after a definition.
class CurrentPlan {
 public:
  // Returns null if torch has to make this call.
  const Plan* of(const std::string& name) {
    if (plan_ && plan_->made == definitions()) [[likely]]
      return plan_.get();
    plan_ = plan_of(name);
    return plan_.get();
  }
  bool known() const { return plan_ != nullptr; }

 private:
  std::unique_ptr<Plan> plan_;
};

// Returns true if modes of __torch_function__ or torch.jit.trace must see a call before the dispatcher does.
bool is_seen_by_python();

// Returns null if torch has to convert the value: a subclass may override the call.
const at::Tensor* plain_tensor(PyObject* value);
PyObject* python_tensor(at::Tensor&& tensor);
// Appends the value as torch would convert it. Returns false if torch has to convert it or raise the error.
bool push(const Plan::Parameter& parameter, PyObject* value, BoxedValues& stack);
// Pushes all arguments in order. Returns false if torch has to convert one.
bool push_all(const Plan& plan, PyObject* const* given, size_t count, PyObject* names, BoxedValues& stack);
// Calls the operator and returns its results, a tensor or a tuple.
PyObject* call_dispatcher(const Plan& plan, BoxedValues& stack);

}  // namespace tile::python
