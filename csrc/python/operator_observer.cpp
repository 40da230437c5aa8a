// Calls a Python function after each operator and each launch of ours, on any thread. tile_ops.profile counts
// bytes and operations with it. Unlike a TorchDispatchMode it changes nothing of what runs: torch.compile
// leaves its graphs if a mode is active.
#include <ATen/record_function.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "python/raising.h"

namespace tile::python {
namespace {

PyObject* function = nullptr;  // guarded by the GIL
std::optional<at::CallbackHandle> installed;

struct Seen : at::ObserverContext {
  std::string name, overload;
  PyObject* inputs = nullptr;  // a tuple
  ~Seen() override {
    if (!inputs || !Py_IsInitialized()) return;
    const GilHeld held;
    Py_DECREF(inputs);
  }
};

// Returns null with an error set if a value has no Python form.
template <class Values>
Owned tuple_of(const Values& values) {
  Owned tuple(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; tuple && i < values.size(); ++i) {
    PyObject* const value = python_value(values[i]);
    if (!value) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), value);
  }
  return tuple;
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& record) {
  auto seen = std::make_unique<Seen>();
  if (const auto name = record.operator_name())
    seen->name = name->name, seen->overload = name->overload_name;
  else if (std::string_view(record.name()).starts_with("tile kernel "))
    seen->name = record.name();
  else
    return nullptr;
  if (!Py_IsInitialized()) return nullptr;
  const GilHeld held;
  if (PyErr_Occurred()) return nullptr;
  seen->inputs = tuple_of(record.inputs()).release();
  if (!seen->inputs) PyErr_Clear();
  return seen;
}

void end(const at::RecordFunction& record, at::ObserverContext* context) {
  const auto* const seen = static_cast<const Seen*>(context);
  if (!seen || !seen->inputs || !Py_IsInitialized()) return;
  const GilHeld held;
  if (!function || PyErr_Occurred()) return;
  const at::DisableRecordFunctionGuard unseen;  // the function may call operators
  const Owned called(Py_NewRef(function)), outputs = tuple_of(record.outputs());
  const Owned result(
      outputs ? PyObject_CallFunction(called.get(), "KssOO", static_cast<unsigned long long>(record.handle()),
                                      seen->name.c_str(), seen->overload.c_str(), seen->inputs, outputs.get())
              : nullptr);
  if (!result) PyErr_WriteUnraisable(called.get());
}

// observe_operators(function): calls function(record function id, name, overload, inputs, outputs) after each
// operator, and after each "tile kernel NAME", whose inputs are its location, the least and the most bytes.
// None ends it.
PyObject* observe_operators(PyObject*, PyObject* given) {
  if (installed) at::removeCallback(*installed), installed.reset();
  Py_CLEAR(function);
  if (given == Py_None) Py_RETURN_NONE;
  function = Py_NewRef(given);
  installed = at::addGlobalCallback(at::RecordFunctionCallback(begin, end)
                                        .needsInputs(true)
                                        .needsOutputs(true)
                                        .needsIds(true)
                                        .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"observe_operators", guarded<observe_operators>, METH_O,
     "observe_operators(function): calls function(id, name, overload, inputs, outputs) after each operator "
     "and each launch of a kernel; None ends it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_operator_observer(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace tile::python
