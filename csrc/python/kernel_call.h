// The arguments of one launch of a kernel in Python: converted, and their key.
#pragma once
#include "python/module.h"

#include <optional>

#include "runtime/kernel.h"

namespace tile::python {

inline constexpr size_t most_arguments = 64;

// How a parameter is annotated, a letter each. What is structured, Python takes apart.
// read_only is an array in a structure, not a parameter.
enum Kind : char { run_time = 'r', constant = 'c', wide_integer = 'w', structured = 's', read_only = 'p' };

// An exception of Python's on its way through C++.
struct PythonFailure : std::exception {
  PythonFailure() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    // Errors of a kernel's text say where they are; how the translator came there is of no use.
    const bool says = PyObject_HasAttrString(value, "frames");
    if (trace || says) PyException_SetTraceback(value, says ? Py_None : trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    raised.reset(value, [](PyObject* object) {
      const PyGILState_STATE state = PyGILState_Ensure();
      Py_XDECREF(object);
      PyGILState_Release(state);
    });
  }
  void restore() const { PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.get())), raised.get()); }
  std::shared_ptr<PyObject> raised;
};

class PythonKernel : public KernelBase {
 public:
  PythonKernel(const char* name, Location at, std::string kinds)
      : KernelBase(name, at, Extents::wide), kinds(std::move(kinds)) {}
  using KernelBase::launch_call;
  using KernelBase::touched_of;
  using KernelBase::trace_call;
  const std::string kinds;
};

struct KernelObject {
  PyObject_HEAD PythonKernel* kernel;  // null: _bind was not called
  PyObject* capture;  // a _C.Capture that the kernel's attributes keep alive; null: nothing it reads changes
};
PythonKernel& kernel_of(PyObject* self);

// The arguments of a kernel in the order of its parameters, once names and defaults are resolved.
class Given {
 public:
  // names: null, or a tuple of keyword names. Their values follow the `count` positional ones.
  Given(PyObject* self, PyObject* const* values, size_t count, PyObject* names)
      : values(values), count(count) {
    if ((names && PyTuple_GET_SIZE(names)) || count != kernel_of(self).kinds.size()) [[unlikely]]
      bind(self, names);
  }
  PyObject* const* values;
  size_t count;

 private:
  void bind(PyObject* self, PyObject* names);
  Owned bound_;
};

// The arguments of one launch, or of one trace: a trace does not need their memory.
class Call {
 public:
  Call(PyObject* self, PyObject* const* given, size_t count, bool traced);
  Call(const Call&) = delete;

  const LaunchKey& key() const { return key_; }
  ArgumentRefs arguments() const { return {refs_, passed_}; }
  void trace(Tracer& tracer) const;  // Python translates the function
  // Raises an error if a written array is read-only, overlaps itself, or overlaps another array that the
  // kernel touches. In refused.cpp.
  void check_written(const Touched& touched) const;
  uint64_t owners(uint64_t which) const;    // the caller's arguments that these passed ones belong to
  void note_written(uint64_t which) const;  // autograd sees that these arguments' tensors have changed

 private:
  std::optional<std::string> name_of(size_t i) const;  // of a parameter; none: the kernel has no names
  std::string parameter(size_t position) const;
  [[noreturn]] void refuse(size_t position, const std::string& why) const;
  // Raises the error for a tensor that no kernel takes, with the argument's number and what to pass instead.
  [[noreturn]] void explain(size_t i, const at::Tensor& tensor, const Error& error) const;
  ArrayArgument array_of(size_t i, const at::Tensor& tensor) const;
  void note(uint64_t bits);
  void add(PyObject* value, size_t i, char kind);
  void add_structure(size_t i);
  void add_array(size_t i, const at::Tensor& tensor);
  void add_scalar(const ScalarArgument& scalar);
  void add_constant(size_t i);
  ScalarArgument integer(size_t i, PyObject* value, char kind);
  void translate(Tracer& tracer) const;
  std::string argument_text(size_t i) const;

  PyObject* self_;
  PythonKernel& kernel_;
  PyObject* const* given_;
  size_t count_, passed_ = 0, array_count_ = 0, scalar_count_ = 0, noted_ = 0;
  bool traced_;
  uint64_t signature_ = 1, read_only_ = 0, generation_ = 0;
  LaunchKey key_;
  ArgumentRef refs_[most_arguments];
  const at::Tensor* tensors_[most_arguments];  // of those that are arrays
  uint8_t owner_[most_arguments];              // the caller's argument that each belongs to
  alignas(ArrayArgument) std::byte arrays_[most_arguments * sizeof(ArrayArgument)];
  alignas(ScalarArgument) std::byte scalars_[most_arguments * sizeof(ScalarArgument)];
  struct Structure {
    size_t argument, first, count;  // leaves among refs_
    Owned word, leaves;
  };
  std::vector<Structure> structures_;
};

// Makes the names of the methods that launches call; -1 with an error set.
int make_call_names();

}  // namespace tile::python
