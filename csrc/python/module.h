// Shared by the files of the Python module: how exceptions and owned objects cross into Python.
#pragma once
#define PY_SSIZE_T_CLEAN  // lengths in formats are Py_ssize_t
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

// Sets the Python error of the class that belongs to a C++ error. Call it where the exception is caught.
void set_error(const std::exception& error);

// No C++ exception may leave a function that Python calls.
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

// While it lives, other threads of Python run.
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

// nullptr where the object is no torch.Tensor; it lives as long as the object. In operator_call.cpp, the one
// file that reads torch's header of tensors as Python objects, which is most of its compilation.
const at::Tensor* tensor_in(PyObject* object);

// Bumps the version of a tensor so that autograd sees the change. In kernel_call.cpp.
void note_write(const at::Tensor& tensor);

// Each adds its file's functions and types to the module; -1 with an error set.
int add_inspection(PyObject* module);
int add_devices(PyObject* module);
int add_emulation(PyObject* module);
int add_raw_cuda(PyObject* module);
int add_operator_call(PyObject* module);
int add_capture(PyObject* module);
int add_ir_builder(PyObject* module);
int add_tile_kernel(PyObject* module);
int add_python_operator(PyObject* module);
int add_python_expression(PyObject* module);
int add_interrupts(PyObject* module);
int add_log_records(PyObject* module);

PyObject* strings(const std::vector<std::string>& texts);  // a list
PyObject* row_of(const InspectedKernel& kernel);           // a dictionary
Owned program_of(const cuda::Program& program);            // what the emulator runs, as a dictionary

}  // namespace tile::python
