// Calls of operators from Python: plain arguments go straight to the dispatcher; all other calls take torch's
// own path.
#include "python/module.h"

#include <structmember.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstddef>
#include <optional>

#include "python/raising.h"
#include "torch/deferred_release.h"
#include "torch/op.h"

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

// The object that packets and overloads of torch.ops call. It replaces torch's function and otherwise behaves
// like it.
struct CallObject {
  PyObject_HEAD vectorcallfunc call;
  PyObject* torch;  // torch's function
  std::string* name;
  Plan* plan;         // null before the first call
  uint64_t accepted;  // definitions() when the operator was last known not to be refused
};

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

// Returns null if torch has to make this call.
Plan* plan_of(CallObject& self) {
  const uint64_t now = definitions();
  if (self.plan && self.plan->made == now) [[likely]]
    return self.plan;
  delete self.plan;
  self.plan = nullptr;
  const auto handle = c10::Dispatcher::singleton().findSchema({*self.name, ""});
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
  return self.plan = plan.release();
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

// Returns null if torch has to convert the value: a subclass may override the call.
const at::Tensor* plain_tensor(PyObject* value) {
  if (!THPVariable_CheckExact(value)) return nullptr;
  const at::Tensor& tensor = THPVariable_Unpack(value);
  return tensor.defined() && !is_named(tensor) ? &tensor : nullptr;
}

// Appends the value as torch would convert it. Returns false if torch has to convert it or raise the error.
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

// Pushes all arguments in order. Returns false if torch has to convert one.
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

// Raises the reason if the definition of this name was refused. Such an operator takes any arguments.
void raise_if_refused(const std::string& name) {
  const auto handle = c10::Dispatcher::singleton().findSchema({name, ""});
  if (!handle || !handle->schema().is_vararg() || !handle->schema().arguments().empty()) return;
  BoxedValues none;
  handle->callBoxed(none);
}

PyObject* call(PyObject* object, PyObject* const* given, size_t flags, PyObject* names) {
  auto& self = *reinterpret_cast<CallObject*>(object);
  HANDLE_TH_ERRORS
  // Modes of __torch_function__ and torch.jit.trace must see a call before the dispatcher does.
  if (!at::impl::torch_function_mode_enabled() && !torch::jit::tracer::isTracing())
    if (const Plan* plan = plan_of(self)) {
      BoxedValues stack;
      stack.reserve(plan->parameters.size() + plan->results);
      if (push_all(*plan, given, static_cast<size_t>(PyVectorcall_NARGS(flags)), names, stack)) {
        // Another thread may replace the plan during the call.
        const c10::OperatorHandle handle = plan->handle;
        const DeferredRelease kept(stack);
        {
          const Released released(true);
          handle.callBoxed(stack);
        }
        return results_of(stack);
      }
    }
  if (const uint64_t now = definitions(); !self.plan && self.accepted != now) {
    raise_if_refused(*self.name);
    self.accepted = now;
  }
  return PyObject_Vectorcall(self.torch, given, flags, names);
  END_HANDLE_TH_ERRORS
}

PyTypeObject* call_type = nullptr;

// OperatorCall(function, name): the object that replaces torch's function of an operator.
PyObject* make_call(PyObject*, PyObject* arguments) {
  PyObject* function;
  const char* name;
  if (!PyArg_ParseTuple(arguments, "Os", &function, &name)) return nullptr;
  auto* made = PyObject_New(CallObject, call_type);
  if (!made) return nullptr;
  made->call = call;
  made->torch = Py_NewRef(function);
  made->name = new std::string(name);
  made->plan = nullptr;
  made->accepted = ~uint64_t{0};
  return reinterpret_cast<PyObject*>(made);
}
void free_call(PyObject* object) {
  auto& self = *reinterpret_cast<CallObject*>(object);
  delete self.plan;
  delete self.name;
  Py_DECREF(self.torch);
  PyObject_Free(object);
  Py_DECREF(call_type);
}
PyObject* attribute(PyObject* object, PyObject* name) {
  return PyObject_GetAttr(reinterpret_cast<CallObject*>(object)->torch, name);
}
// Hashes like torch's function, because packets may already be keys of dictionaries.
Py_hash_t hash(PyObject* object) { return PyObject_Hash(reinterpret_cast<CallObject*>(object)->torch); }

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CallObject, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_call)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_getattro, reinterpret_cast<void*>(attribute)},
                       {Py_tp_hash, reinterpret_cast<void*>(hash)},
                       {Py_tp_members, members},
                       {0, nullptr}};
PyType_Spec spec = {"tile_ops._C.OperatorCall", sizeof(CallObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

// Packets of our operators are called here. This call is the only difference between their class and its
// base, torch's class.
PyObject* op_name = nullptr;
PyObject* call_packet(PyObject* packet, PyObject* arguments, PyObject* named) {
  const Owned function(PyObject_GenericGetAttr(packet, op_name));
  if (!function) return nullptr;
  if (Py_TYPE(function.get()) != call_type || (named && PyDict_GET_SIZE(named)))
    return PyObject_Call(function.get(), arguments, named);
  return call(function.get(), &PyTuple_GET_ITEM(arguments, 0),
              static_cast<size_t>(PyTuple_GET_SIZE(arguments)), nullptr);
}
PyType_Slot packet_slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_packet)}, {0, nullptr}};
PyType_Spec packet_spec = {"tile_ops._C.OperatorPacket", 0, 0, Py_TPFLAGS_DEFAULT, packet_slots};
PyObject* packet_class(PyObject*, PyObject* base) { return PyType_FromSpecWithBases(&packet_spec, base); }

// torch.ops.<namespace>: finds an operator that was looked up before in the dictionary, without the method
// call that Python makes for a module with __getattr__.
PyObject* lookup_name = nullptr;
PyObject* attribute_of_namespace(PyObject* operators, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(operators, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_CallMethodOneArg(operators, lookup_name, name);
}
PyType_Slot namespace_slots[] = {{Py_tp_getattro, reinterpret_cast<void*>(attribute_of_namespace)},
                                 {0, nullptr}};
PyType_Spec namespace_spec = {"tile_ops._C.OperatorNamespace", 0, 0, Py_TPFLAGS_DEFAULT, namespace_slots};
PyObject* namespace_class(PyObject*, PyObject* base) {
  return PyType_FromSpecWithBases(&namespace_spec, base);
}

// The function that the interpreter's main thread calls after operators are defined.
PyObject* listener = nullptr;
std::atomic<bool> telling = false;
int tell(void*) {
  telling = false;
  const Owned done(PyObject_CallNoArgs(listener));
  if (!done) PyErr_WriteUnraisable(listener);
  return 0;
}
void defined() {
  if (Py_IsInitialized() && !telling.exchange(true) && Py_AddPendingCall(tell, nullptr)) telling = false;
}
PyObject* on_definition(PyObject*, PyObject* function) {
  Py_XSETREF(listener, Py_NewRef(function));
  set_definition_listener(defined);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"operator_call", guarded<make_call>, METH_VARARGS,
     "operator_call(function, name): calls the operator as torch's function for it does, sooner where the "
     "arguments are plain."},
    {"packet_class", guarded<packet_class>, METH_O,
     "packet_class(base): a class of packets whose calls go to their _op at once."},
    {"namespace_class", guarded<namespace_class>, METH_O,
     "namespace_class(base): a class of namespaces that find a known operator at once."},
    {"on_definition", guarded<on_definition>, METH_O,
     "on_definition(function): calls it when operators have been defined."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_operator_call(PyObject* module) {
  call_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  op_name = PyUnicode_InternFromString("_op");
  lookup_name = PyUnicode_InternFromString("__getattr__");
  if (!call_type || !op_name || !lookup_name ||
      PyModule_AddObjectRef(module, "OperatorCall", reinterpret_cast<PyObject*>(call_type)) < 0)
    return -1;
  return PyModule_AddFunctions(module, methods);
}

}  // namespace tile::python
