// Shared by the files of the Python module: conversion of exceptions and ownership of Python objects.
#pragma once
#define PY_SSIZE_T_CLEAN  // lengths in format strings are Py_ssize_t
#include <Python.h>

#include <memory>
#include <string>
#include <vector>

#include "support/error.h"

namespace at {
class Tensor;
}

namespace tile {

struct InspectedKernel;
struct Value;
namespace cuda {
struct Program;
}

}  // namespace tile

namespace tile::python {

// Sets the Python error for a C++ exception. Call it where the exception is caught.
void set_error(const std::exception& error);

// Wraps a function that Python calls, because no C++ exception may leave it.
template <PyCFunction function>
PyObject* guarded(PyObject* self, PyObject* arguments) {
  try {
    return function(self, arguments);
  } catch (const std::exception& error) {
    set_error(error);
    return nullptr;
  }
}

struct Release {
  void operator()(PyObject* object) const { Py_XDECREF(object); }
};
using Owned = std::unique_ptr<PyObject, Release>;

class GilHeld {
 public:
  GilHeld() : state_(PyGILState_Ensure()) {}
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;

 private:
  PyGILState_STATE state_;
};

// Releases the interpreter for its lifetime, so that other Python threads run.
class Released {
 public:
  explicit Released(bool release) : state_(release ? PyEval_SaveThread() : nullptr) {}
  ~Released() {
    if (state_) PyEval_RestoreThread(state_);
  }
  Released(const Released&) = delete;

 private:
  PyThreadState* state_;
};

// Returns nullptr if the object is not a torch.Tensor. The result lives as long as the object. In
// operator_plan.cpp, the only file that includes torch's header of Python tensors, which dominates its
// compile time.
const at::Tensor* tensor_in(PyObject* object);

// Bumps the version of a tensor so that autograd sees the change. In kernel_call.cpp.
void note_write(const at::Tensor& tensor);

// Each adds the functions and types of its file to the module; returns -1 with an error set.
int add_inspection(PyObject* module);
int add_devices(PyObject* module);
int add_emulation(PyObject* module);
int add_raw_cuda(PyObject* module);
int add_operator_call(PyObject* module);
int add_module_call(PyObject* module);
int add_patched_functions(PyObject* module);
int add_capture(PyObject* module);
int add_ir_builder(PyObject* module);
int add_tile_kernel(PyObject* module);
int add_compiled_call(PyObject* module);
int add_python_operator(PyObject* module);
int add_python_expression(PyObject* module);
int add_interrupts(PyObject* module);
int add_log_records(PyObject* module);
int add_operator_observer(PyObject* module);
int add_packs(PyObject* module);
int add_derived_kernel(PyObject* module);
int add_derived_replay(PyObject* module);
int add_saved_bytes(PyObject* module);

PyObject* strings(const std::vector<std::string>& texts);  // returns a list
PyObject* row_of(const InspectedKernel& kernel);           // returns a dictionary
Owned program_of(const cuda::Program& program);            // returns the emulator's input as a dictionary

}  // namespace tile::python
