// Python functions that C++ calls from any thread, and what they raise.
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

// What Python raised goes through the dispatcher as torch's own functions let it.
[[noreturn]] inline void throw_raised() {
  python_error error;
  error.persist();
  throw error;
}

// The last to hold it may be any thread, and may outlive the interpreter.
inline std::shared_ptr<PyObject> kept(PyObject* object) {
  return {Py_NewRef(object), [](PyObject* last) {
            if (!Py_IsInitialized()) return;
            const GilHeld held;
            Py_DECREF(last);
          }};
}

// For functions that may raise what functions of Python raised.
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

// Returns a value as torch's functions return it to Python; null with an error set. In operator_call.cpp.
PyObject* python_value(const c10::IValue& value);
PyObject* python_dtype(int64_t scalar_type);

// A _C.Operator; null with an error set.
PyObject* operator_object(Operator defined);

}  // namespace tile::python
