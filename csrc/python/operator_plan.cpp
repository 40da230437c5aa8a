// Converts Python arguments to the boxed values of a schema, and calls the dispatcher.
#include "python/operator_plan.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <ATen/PythonTorchFunctionTLS.h>

#include "torch/deferred_release.h"

namespace tile::python {

const at::Tensor* tensor_in(PyObject* object) {
  return THPVariable_Check(object) ? &THPVariable_Unpack(object) : nullptr;
}
PyObject* python_value(const c10::IValue& value) {
  return value.isTensor() ? THPVariable_Wrap(value.toTensor())
                          : torch::jit::toPyObject(value).release().ptr();
}
PyObject* python_dtype(int64_t scalar_type) {
  return Py_NewRef(reinterpret_cast<PyObject*>(torch::getTHPDtype(static_cast<at::ScalarType>(scalar_type))));
}

namespace {

Plan::Parameter parameter_of(const c10::Argument& argument) {
  using Type = c10::TypeKind;
  using Kind = Plan::Kind;
  Plan::Parameter parameter{.keyword_only = argument.kwarg_only(),
                            .name = Owned(PyUnicode_InternFromString(argument.name().c_str())),
                            .standard = argument.default_value()};
  c10::TypePtr type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) {
    parameter.optional = true;
    type = optional->getElementType();
  }
  const auto is = [](const c10::TypePtr& type, Type kind) { return type->kind() == kind; };
  if (is(type, Type::TensorType))
    parameter.kind = Kind::tensor;
  else if (is(type, Type::IntType) || is(type, Type::SymIntType))
    parameter.kind = Kind::integer;
  else if (is(type, Type::ScalarTypeType))
    parameter.kind = Kind::scalar_type;
  else if (is(type, Type::FloatType))
    parameter.kind = Kind::floating;
  else if (is(type, Type::NumberType))
    parameter.kind = Kind::number;
  else if (is(type, Type::BoolType))
    parameter.kind = Kind::boolean;
  else if (is(type, Type::StringType))
    parameter.kind = Kind::text;
  else if (const auto list = type->cast<c10::ListType>()) {
    if (is(list->getElementType(), Type::IntType) || is(list->getElementType(), Type::SymIntType))
      parameter.kind = Kind::integers;
    else if (is(list->getElementType(), Type::TensorType))
      parameter.kind = Kind::tensors;
  }
  return parameter;
}

template <class List>
bool push_integer(PyObject* value, List& list) {
  int overflow = 0;
  if (!PyLong_CheckExact(value)) return false;
  list.emplace_back(static_cast<int64_t>(PyLong_AsLongLongAndOverflow(value, &overflow)));
  return !overflow;
}

// Torch 2.12 and later lack this function.
template <class Tensor>
bool is_named(const Tensor& tensor) {
  if constexpr (requires { tensor.has_names(); })
    return tensor.has_names();
  else
    return false;
}

// Returns null if the argument is not given. An unknown keyword is found later because the count does not
// match.
PyObject* named(const Plan::Parameter& parameter, PyObject* names, PyObject* const* values) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    if (name == parameter.name.get()) return values[i];
    if (!PyUnicode_CHECK_INTERNED(name) && PyUnicode_Compare(name, parameter.name.get()) == 0)
      return values[i];
  }
  return nullptr;
}

PyObject* results_of(BoxedValues& stack) {
  if (stack.empty()) Py_RETURN_NONE;
  if (stack.size() == 1) return THPVariable_Wrap(std::move(stack[0]).toTensor());
  Owned tuple(PyTuple_New(static_cast<Py_ssize_t>(stack.size())));
  for (size_t i = 0; tuple && i < stack.size(); ++i) {
    PyObject* tensor = THPVariable_Wrap(std::move(stack[i]).toTensor());
    if (!tensor) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), tensor);
  }
  return tuple.release();
}

}  // namespace

std::unique_ptr<Plan> plan_of(const std::string& name) {
  const uint64_t now = definitions();  // before the lookup, because another thread may define it again
  const auto handle = c10::Dispatcher::singleton().findSchema({name, ""});
  if (!handle) return nullptr;
  const c10::FunctionSchema& schema = handle->schema();
  if (schema.is_vararg() || schema.is_varret()) return nullptr;
  for (const c10::Argument& result : schema.returns())
    if (result.type()->kind() != c10::TypeKind::TensorType) return nullptr;
  auto plan = std::make_unique<Plan>(Plan{now, *handle, {}, schema.returns().size()});
  for (const c10::Argument& argument : schema.arguments()) {
    plan->parameters.push_back(parameter_of(argument));
    if (!plan->parameters.back().name) {
      PyErr_Clear();
      return nullptr;
    }
  }
  return plan;
}

PyObject* python_tensor(at::Tensor&& tensor) { return THPVariable_Wrap(std::move(tensor)); }

bool is_seen_by_python() {
  return at::impl::torch_function_mode_enabled() || torch::jit::tracer::isTracing();
}

const at::Tensor* plain_tensor(PyObject* value) {
  if (!THPVariable_CheckExact(value)) return nullptr;
  const at::Tensor& tensor = THPVariable_Unpack(value);
  return tensor.defined() && !is_named(tensor) ? &tensor : nullptr;
}

bool push(const Plan::Parameter& parameter, PyObject* value, BoxedValues& stack) {
  using Kind = Plan::Kind;
  if (value == Py_None) {
    if (!parameter.optional) return false;
    stack.emplace_back();
    return true;
  }
  switch (parameter.kind) {
    case Kind::tensor: {
      const at::Tensor* tensor = plain_tensor(value);
      if (tensor) stack.emplace_back(*tensor);
      return tensor;
    }
    case Kind::integer:
      return push_integer(value, stack);
    case Kind::scalar_type:
      if (!THPDtype_Check(value)) return false;
      stack.emplace_back(static_cast<int64_t>(reinterpret_cast<THPDtype*>(value)->scalar_type));
      return true;
    case Kind::floating:
      if (!PyFloat_CheckExact(value)) return false;
      stack.emplace_back(PyFloat_AS_DOUBLE(value));
      return true;
    case Kind::number:
      if (!PyFloat_CheckExact(value)) return push_integer(value, stack);
      stack.emplace_back(PyFloat_AS_DOUBLE(value));
      return true;
    case Kind::boolean:
      if (!PyBool_Check(value)) return false;
      stack.emplace_back(value == Py_True);
      return true;
    case Kind::text: {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_CheckExact(value) ? PyUnicode_AsUTF8AndSize(value, &size) : nullptr;
      if (text)
        stack.emplace_back(std::string(text, static_cast<size_t>(size)));
      else
        PyErr_Clear();
      return text;
    }
    case Kind::integers: {
      if (!PyList_CheckExact(value) && !PyTuple_Check(value)) return false;
      std::vector<int64_t> list;
      list.reserve(static_cast<size_t>(PySequence_Fast_GET_SIZE(value)));
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
        if (!push_integer(PySequence_Fast_GET_ITEM(value, i), list)) return false;
      stack.emplace_back(std::move(list));
      return true;
    }
    case Kind::tensors: {
      if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return false;
      c10::List<at::Tensor> list;
      list.reserve(static_cast<size_t>(PySequence_Fast_GET_SIZE(value)));
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
        const at::Tensor* tensor = plain_tensor(PySequence_Fast_GET_ITEM(value, i));
        if (!tensor) return false;
        list.push_back(*tensor);
      }
      stack.emplace_back(std::move(list));
      return true;
    }
    case Kind::other:
      return false;
  }
  return false;
}

bool push_all(const Plan& plan, PyObject* const* given, size_t count, PyObject* names, BoxedValues& stack) {
  const std::vector<Plan::Parameter>& parameters = plan.parameters;
  if (count > parameters.size()) return false;
  for (size_t i = 0; i < count; ++i)
    if (parameters[i].keyword_only || !push(parameters[i], given[i], stack)) return false;
  Py_ssize_t found = 0;
  for (size_t i = count; i < parameters.size(); ++i) {
    PyObject* value = names ? named(parameters[i], names, given + count) : nullptr;
    if (value) {
      ++found;
      if (!push(parameters[i], value, stack)) return false;
    } else if (parameters[i].standard) {
      stack.push_back(*parameters[i].standard);
    } else {
      return false;
    }
  }
  return !names || found == PyTuple_GET_SIZE(names);
}

PyObject* call_dispatcher(const Plan& plan, BoxedValues& stack) {
  // Another thread may replace the plan during the call.
  const c10::OperatorHandle handle = plan.handle;
  const DeferredRelease kept(stack);
  {
    const Released released(true);
    handle.callBoxed(stack);
  }
  return results_of(stack);
}

}  // namespace tile::python
