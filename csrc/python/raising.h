// Python functions that C++ calls from any thread, and the exceptions that they raise.
#pragma once
#include "python/module.h"

#include <torch/csrc/Exceptions.h>

namespace c10 {
struct IValue;
}

namespace tile {

class Operator;

}  // namespace tile

namespace tile::python {

// Throws the Python exception that is set, in the form in which torch's own functions pass it through the
// dispatcher.
[[noreturn]] inline void throw_raised() {
  python_error error;
  error.persist();
  throw error;
}

// Returns an owner whose last copy may be released by any thread, even after the interpreter has ended.
inline std::shared_ptr<PyObject> kept(PyObject* object) {
  return {Py_NewRef(object), [](PyObject* last) {
            if (!Py_IsInitialized()) return;
            const GilHeld held;
            Py_DECREF(last);
          }};
}

// Wraps functions that may pass on exceptions of Python functions.
template <PyCFunction function>
PyObject* method(PyObject* self, PyObject* arguments) {
  HANDLE_TH_ERRORS
  try {
    return function(self, arguments);
  } catch (const Error& error) {
    set_error(error);
    return nullptr;
  }
  END_HANDLE_TH_ERRORS
}

// Returns a value as torch's functions return it to Python; null with an error set. In operator_plan.cpp.
PyObject* python_value(const c10::IValue& value);
PyObject* python_dtype(int64_t scalar_type);

// Returns a _C.Operator, or null with an error set.
PyObject* operator_object(Operator defined);

}  // namespace tile::python
