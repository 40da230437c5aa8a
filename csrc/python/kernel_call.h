// The arguments of one launch of a Python kernel: their conversion and their key.
#pragma once
#include "python/module.h"

#include <optional>

#include "runtime/call_key.h"
#include "runtime/kernel.h"

namespace tile::python {

class BuiltFunction;

inline constexpr size_t most_arguments = 64;

// How a parameter is annotated, as one letter. Python takes structured values apart. read_only marks an array
// in a structure; no parameter has it.
enum Kind : char { run_time = 'r', constant = 'c', wide_integer = 'w', structured = 's', read_only = 'p' };

// Carries a Python exception through C++.
struct PythonFailure : std::exception {
  PythonFailure() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    // Errors in a kernel's source contain their own location; the translator's traceback would not help.
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

// Runs a function that may raise errors of either language.
template <class F>
PyObject* raising(const F& function) {
  try {
    return function();
  } catch (const PythonFailure& failure) {
    failure.restore();
  } catch (const std::exception& error) {
    set_error(error);
  }
  return nullptr;
}

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
  PyObject_HEAD PythonKernel* kernel;  // null before _bind is called
  PyObject* capture;  // a _C.Capture that the kernel's attributes keep alive; null if the kernel reads
                      // nothing that can change
};
PythonKernel& kernel_of(PyObject* self);

// Returns true for a _C.TileKernel; after it, the object is a KernelObject. In tile_kernel.cpp.
bool is_kernel(PyObject* object);

// Adds a parameter of a kernel that is being translated, and returns what Python's _translate wants to know
// of it; null with an error set.
Owned described(BuiltFunction& built, Tracer& tracer, const ArgumentRef& argument);
// Lets Python translate a kernel's function into `built`. numbers: a list of what is described; values: a
// tuple of the arguments; generation: an integer or None. Throws PythonFailure.
void translate(PyObject* kernel, const BuiltFunction& built, const Owned& numbers, const Owned& values,
               const Owned& generation);

// The arguments of a kernel in the order of its parameters, after keywords and defaults are resolved.
class Given {
 public:
  // names: null, or a tuple of keyword names, whose values follow the `count` positional ones.
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

// The arguments of one launch, or of one trace, which does not need their memory.
class Call {
 public:
  Call(PyObject* self, PyObject* const* given, size_t count, bool traced);
  Call(const Call&) = delete;

  const LaunchKey& key() const { return key_.words; }
  ArgumentRefs arguments() const { return {refs_, passed_}; }
  // The tensor of an array among arguments().
  const at::Tensor& tensor(size_t position) const { return *tensors_[position]; }
  void trace(Tracer& tracer) const;  // lets Python translate the function
  // Raises an error if a written array is read-only, overlaps itself, or overlaps another array that the
  // kernel touches. In refused.cpp.
  void check_written(const Touched& touched) const;
  // Maps bits of passed arguments to bits of the caller's arguments that contain them.
  uint64_t owners(uint64_t which) const;
  void note_written(uint64_t which) const;  // tells autograd that the tensors of these arguments changed
  // Returns a list of what arguments() holds, as (Python's tensor or number, number of the argument).
  Owned passed() const;

 private:
  // The name of a parameter; none if the kernel has no names.
  std::optional<std::string> name_of(size_t i) const;
  std::string parameter(size_t position) const;
  [[noreturn]] void refuse(size_t position, const std::string& why) const;
  // Raises the error for a tensor that no kernel takes, with the argument's number and what to pass instead.
  [[noreturn]] void explain(size_t i, const at::Tensor& tensor, const Error& error) const;
  ArrayArgument array_of(size_t i, const at::Tensor& tensor) const;
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
  size_t count_, passed_ = 0, array_count_ = 0, scalar_count_ = 0;
  bool traced_;
  uint64_t read_only_ = 0, generation_ = 0;
  CallKey key_;
  ArgumentRef refs_[most_arguments];
  const at::Tensor* tensors_[most_arguments];  // the tensors of array arguments
  uint8_t owner_[most_arguments];              // the caller's argument that contains each
  alignas(ArrayArgument) std::byte arrays_[most_arguments * sizeof(ArrayArgument)];
  alignas(ScalarArgument) std::byte scalars_[most_arguments * sizeof(ScalarArgument)];
  struct Structure {
    size_t argument, first, count;  // the leaves' range in refs_
    Owned word, leaves;
  };
  std::vector<Structure> structures_;
};

// While it lives, launches of Python kernels on this thread do not run: they are appended to a list, as
// (kernel, grid, arguments), or a function is called with these. Null: they run. In tile_kernel.cpp.
class RecordedLaunches {
 public:
  explicit RecordedLaunches(PyObject* to);
  ~RecordedLaunches();
  RecordedLaunches(const RecordedLaunches&) = delete;

 private:
  PyObject* before_;
};

// Makes the names of the methods that launches call; -1 with an error set.
int make_call_names();

}  // namespace tile::python
