// Calls that patched modules make in C++ where all that they meet is plain. Anything else gets
// NotImplemented, and Python's own code makes the call.
#pragma once
#include "python/operator_plan.h"

namespace tile::python {

// Reads attributes of a module as Python does, but finds parameters without a call of Module.__getattr__.
class Attributes {
 public:
  explicit Attributes(PyObject* module);
  // `name` is interned. Returns null with an error set.
  Owned operator[](PyObject* name) const;

 private:
  PyObject* module_;
  PyObject *dictionary_ = nullptr, *parameters_ = nullptr;  // borrowed; null: Python has to look
};

// Returns true if the tensors are dense, on one CPU or GPU, and those that are floating have one dtype that
// our operators take, or autocast makes it so unless `exact`. Undefined tensors are ignored.
class Taken {
 public:
  explicit Taken(bool exact = false) : exact_(exact) {}
  void add(const at::Tensor& tensor);
  explicit operator bool() const;

 private:
  bool exact_, plain_ = true, same_ = true;
  std::optional<at::Device> device_;
  std::optional<at::ScalarType> dtype_;
};

bool is_autocast_enabled(at::DeviceType device);
at::ScalarType autocast_dtype(at::DeviceType device);

inline PyObject* left_to_python() { return Py_NewRef(Py_NotImplemented); }
// Calls function(), and returns NotImplemented for the errors of arguments that an operator does not take.
template <class F>
PyObject* or_left_to_python(F function) {
  try {
    return function();
  } catch (const c10::ValueError&) {
  } catch (const c10::TypeError&) {
  } catch (const c10::NotImplementedError&) {
  } catch (python_error& error) {
    error.restore();
    if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_TypeError) &&
        !PyErr_ExceptionMatches(PyExc_NotImplementedError))
      return nullptr;
    PyErr_Clear();
  }
  return left_to_python();
}

}  // namespace tile::python
