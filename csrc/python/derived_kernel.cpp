// Derived kernels for Python: the adjoint of Tile IR text, a cache by the key of a launch, and the record of
// the launches of a function, which are not run.
#include "derive/reverse.h"

#include <list>

#include "ir/print.h"
#include "ir/walk.h"
#include "python/kernel_call.h"
#include "runtime/launch_observer.h"
#include "runtime/overlap.h"
#include "runtime/text_kernel.h"
#include "torch/args.h"

namespace tile::python {
namespace {

std::string dtype_name(DType dtype) { return std::string(info(dtype).name); }

// kernel_arrays(text): returns a list with (dtype, rank, read, stored, added) for each array, None for each
// scalar. added: the kernel adds to it, atomically.
PyObject* kernel_arrays(PyObject*, PyObject* given) {
  const char* text = PyUnicode_AsUTF8(given);
  if (!text) return nullptr;
  const Function kernel = parse(text);
  struct Uses {
    bool read = false, stored = false, added = false;
  };
  std::unordered_map<const Value*, Uses> uses;
  walk(kernel.body(), [&](const Op& op) {
    const auto [reads, writes] = std::pair(op.traits().reads, op.traits().writes);
    if (!reads && !writes) return;
    Uses& each = uses[root_array(op.operands[0])];
    (writes ? reads ? each.added : each.stored : each.read) = true;
  });
  Owned list(PyList_New(0));
  for (const Value* parameter : kernel.body().arguments) {
    const Uses each = uses[parameter];
    const auto flag = [](bool value) { return value ? Py_True : Py_False; };
    const Type& type = parameter->type;
    const Owned row(type.is_array()
                        ? Py_BuildValue("(siOOO)", dtype_name(type.dtype).c_str(), type.array_rank,
                                        flag(each.read), flag(each.stored), flag(each.added))
                        : Py_NewRef(Py_None));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}

struct DerivedObject {
  PyObject_HEAD Derived* derived;
  TextKernel* kernel;
};
PyTypeObject* derived_type = nullptr;
DerivedObject& derived_of(PyObject* self) { return *reinterpret_cast<DerivedObject*>(self); }

// derive(text, ((parameter, atomic, adds), …), (parameter, …), folded axis).
PyObject* derive(PyObject*, PyObject* arguments) {
  const char* text;
  PyObject *wanted_list, *result_list;
  int folded_axis;
  if (!PyArg_ParseTuple(arguments, "sO!O!i", &text, &PyTuple_Type, &wanted_list, &PyTuple_Type, &result_list,
                        &folded_axis))
    return nullptr;
  std::vector<Wanted> wanted;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted_list); ++i) {
    Py_ssize_t parameter;
    int atomic, adds;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(wanted_list, i), "npp", &parameter, &atomic, &adds))
      return nullptr;
    wanted.push_back(
        {static_cast<size_t>(parameter), atomic ? Sharing::atomic : Sharing::partial, adds != 0});
  }
  std::vector<size_t> results;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result_list); ++i)
    results.push_back(PyLong_AsSize_t(PyTuple_GET_ITEM(result_list, i)));
  if (PyErr_Occurred()) return nullptr;
  auto derived = std::make_unique<Derived>(reverse(parse(text), wanted, results, folded_axis));
  auto kernel = std::make_unique<TextKernel>(print(derived->function));
  auto* made = PyObject_New(DerivedObject, derived_type);
  if (!made) return nullptr;
  made->derived = derived.release();
  made->kernel = kernel.release();
  return reinterpret_cast<PyObject*>(made);
}
void free_derived(PyObject* self) {
  delete derived_of(self).kernel;
  delete derived_of(self).derived;
  PyObject_Free(self);
  Py_DECREF(derived_type);
}

PyObject* text_of(PyObject* self, void*) {
  return raising([&] { return PyUnicode_FromString(print(derived_of(self).derived->function).c_str()); });
}
PyObject* tuple_of(const std::vector<int>& numbers) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(numbers.size()));
  for (size_t i = 0; tuple && i < numbers.size(); ++i)
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), PyLong_FromLong(numbers[i]));
  return tuple;
}
PyObject* gradients_of(PyObject* self, void*) {
  static constexpr const char* names[] = {"stored", "added", "summed", "atomic"};
  Owned list(PyList_New(0));
  for (const DerivedGradient& each : derived_of(self).derived->gradients) {
    Owned covers(PyList_New(0));
    for (const Cover& cover : each.covers) {
      const Owned axis(Py_BuildValue("(iLO)", cover.grid_axis, static_cast<long long>(cover.extent),
                                     cover.whole ? Py_True : Py_False));
      if (!covers || !axis || PyList_Append(covers.get(), axis.get()) < 0) return nullptr;
    }
    const Owned row(Py_BuildValue("(nsNssN)", static_cast<Py_ssize_t>(each.parameter), names[each.how],
                                  tuple_of(each.axes), dtype_name(each.dtype).c_str(), how_text(each).c_str(),
                                  covers.release()));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}
PyObject* scratch_of(PyObject* self, void*) {
  Owned list(PyList_New(0));
  for (const DerivedScratch& each : derived_of(self).derived->scratch) {
    const Owned row(Py_BuildValue("(sN)", dtype_name(each.dtype).c_str(),
                                  tuple_of(std::vector<int>(each.shape.begin(), each.shape.end()))));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}
PyObject* folded_axis_of(PyObject* self, void*) {
  return PyLong_FromLong(derived_of(self).derived->folded_axis);
}
PyObject* grid_axes_of(PyObject* self, void*) { return tuple_of(derived_of(self).derived->grid_axes); }

// The arguments of a launch, as the parameters of a kernel want them.
class Arguments {
 public:
  Arguments(PyObject* given, const std::vector<Type>& parameters) {
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(given));
    for (size_t i = 0; i < count && i < parameters.size(); ++i) {
      PyObject* value = PyTuple_GET_ITEM(given, static_cast<Py_ssize_t>(i));
      if (const at::Tensor* tensor = tensor_in(value))
        list_.emplace_back(to_array_argument(*tensor));
      else
        list_.emplace_back(scalar(value, parameters[i].dtype));
    }
  }
  const std::vector<Argument>& list() const { return list_; }

 private:
  static ScalarArgument scalar(PyObject* value, DType dtype) {
    ScalarArgument made;
    if (dtype == DType::f32)
      made = scalar_argument(static_cast<float>(PyFloat_AsDouble(value)));
    else if (dtype == DType::f64)
      made = scalar_argument(PyFloat_AsDouble(value));
    else if (dtype == DType::boolean)
      made = scalar_argument(PyObject_IsTrue(value) == 1);
    else if (dtype == DType::i64)
      made = scalar_argument(static_cast<int64_t>(PyLong_AsLongLong(value)));
    else
      made = scalar_argument(static_cast<int>(PyLong_AsLong(value)));
    if (PyErr_Occurred()) throw PythonFailure();
    return made;
  }
  std::vector<Argument> list_;
};

// iterations(scratch, (x, y, z), arguments): the most iterations of the loop whose values a scratch array
// keeps.
PyObject* iterations(PyObject* self, PyObject* arguments) {
  Py_ssize_t scratch;
  LaunchSizes sizes;
  long long x, y, z;
  PyObject* given;
  if (!PyArg_ParseTuple(arguments, "n(LLL)O!", &scratch, &x, &y, &z, &PyTuple_Type, &given)) return nullptr;
  return raising([&] {
    const Derived& derived = *derived_of(self).derived;
    const Arguments launch(given, derived_of(self).kernel->parameters());
    sizes.blocks[0] = x, sizes.blocks[1] = y, sizes.blocks[2] = z;
    sizes.extent = [&](size_t parameter, int64_t axis) {
      return std::get<ArrayArgument>(launch.list().at(parameter)).sizes[static_cast<size_t>(axis)];
    };
    sizes.scalar = [&](size_t parameter) {
      const auto& number = std::get<ScalarArgument>(launch.list().at(parameter));
      return info(number.dtype).bytes == 8 ? static_cast<int64_t>(number.bits)
                                           : static_cast<int64_t>(static_cast<int32_t>(number.bits));
    };
    const Op* loop = derived.scratch.at(static_cast<size_t>(scratch)).loop;
    return PyLong_FromLongLong(most_iterations(derived.kernel, *loop, sizes));
  });
}

// launch((x, y, z), arguments).
PyObject* launch(PyObject* self, PyObject* arguments) {
  long long x, y, z;
  PyObject* given;
  if (!PyArg_ParseTuple(arguments, "(LLL)O!", &x, &y, &z, &PyTuple_Type, &given)) return nullptr;
  return raising([&] {
    const TextKernel& kernel = *derived_of(self).kernel;
    const Arguments launch(given, kernel.parameters());
    {
      const Released released(true);
      kernel.launch({x, y, z}, launch.list());
    }
    return Py_NewRef(Py_None);
  });
}

// A cache of Python objects by the key of a kernel's launch: what the key of a compiled kernel holds, too.
struct Entry {
  explicit Entry(const LaunchKey& key, PyObject* value) : key(key), value(Py_NewRef(value)) {}
  LaunchKey key;
  Owned value;
};
struct CacheObject {
  PyObject_HEAD std::list<Entry>* entries;
};
PyTypeObject* cache_type = nullptr;
std::list<Entry>& entries_of(PyObject* self) { return *reinterpret_cast<CacheObject*>(self)->entries; }

PyObject* new_cache(PyTypeObject*, PyObject*, PyObject*) {
  auto* made = PyObject_New(CacheObject, cache_type);
  if (!made) return nullptr;
  made->entries = new std::list<Entry>;
  return reinterpret_cast<PyObject*>(made);
}
void free_cache(PyObject* self) {
  delete reinterpret_cast<CacheObject*>(self)->entries;
  PyObject_Free(self);
  Py_DECREF(cache_type);
}

void require_kernel(PyObject* kernel) {
  if (is_kernel(kernel)) return;
  PyErr_Format(PyExc_TypeError, "%R is no kernel; make one with tile_ops.language.kernel", kernel);
  throw PythonFailure();
}
PyObject* cached(PyObject* self, PyObject* arguments) {
  PyObject *kernel, *given;
  if (!PyArg_ParseTuple(arguments, "OO!", &kernel, &PyTuple_Type, &given)) return nullptr;
  return raising([&] {
    require_kernel(kernel);
    const Call call(kernel, PySequence_Fast_ITEMS(given), static_cast<size_t>(PyTuple_GET_SIZE(given)),
                    false);
    for (const Entry& entry : entries_of(self))
      if (entry.key == call.key()) return Py_NewRef(entry.value.get());
    return Py_NewRef(Py_None);
  });
}
PyObject* cache(PyObject* self, PyObject* arguments) {
  PyObject *kernel, *given, *value;
  if (!PyArg_ParseTuple(arguments, "OO!O", &kernel, &PyTuple_Type, &given, &value)) return nullptr;
  return raising([&] {
    require_kernel(kernel);
    const Call call(kernel, PySequence_Fast_ITEMS(given), static_cast<size_t>(PyTuple_GET_SIZE(given)),
                    false);
    entries_of(self).emplace_front(call.key(), value);
    return Py_NewRef(Py_None);
  });
}
// passed_arguments(kernel, arguments).
PyObject* passed_arguments(PyObject*, PyObject* arguments) {
  PyObject *kernel, *given;
  if (!PyArg_ParseTuple(arguments, "OO!", &kernel, &PyTuple_Type, &given)) return nullptr;
  return raising([&] {
    require_kernel(kernel);
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(given));
    return Call(kernel, PySequence_Fast_ITEMS(given), count, true).passed().release();
  });
}

// record_launches(call, list): appends the launches of Python kernels in call(), which are not run, to the
// list, as (kernel, grid, arguments). Launches of other kernels are errors.
class OtherLaunches : public LaunchObserver {
 public:
  bool observe(const KernelName& kernel, const Grid&, ArgumentRefs,
               const std::function<Function()>&) override {
    fail(kernel.where, ErrorKind::unsupported, "launch of ", kernel.name,
         ": a derived gradient takes launches of kernels in Python only; write the gradient by hand");
  }
};
PyObject* record_launches(PyObject*, PyObject* arguments) {
  PyObject *call, *list;
  if (!PyArg_ParseTuple(arguments, "OO!", &call, &PyList_Type, &list)) return nullptr;
  return raising([&] {
    const RecordedLaunches recorded(list);
    std::optional<OtherLaunches> others;
    if (!LaunchObserver::of_thread()) others.emplace();
    const Owned done(PyObject_CallNoArgs(call));
    if (!done) throw PythonFailure();
    return Py_NewRef(Py_None);
  });
}

// overlap(x, y): true if an element of one tensor shares memory with one of the other; with x alone: true if
// two of its elements do.
PyObject* overlapping(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return raising([&]() -> PyObject* {
    const at::Tensor* x = count ? tensor_in(given[0]) : nullptr;
    const at::Tensor* y = count == 2 ? tensor_in(given[1]) : x;
    if (!x || !y) fail(ErrorKind::type, "overlap: takes one or two tensors");
    const ArrayArgument a = to_array_argument(*x), b = to_array_argument(*y);
    const bool found =
        count == 2 ? overlap(strided_memory(a), strided_memory(b)) : overlaps_itself(strided_memory(a));
    return PyBool_FromLong(found);
  });
}

PyMethodDef functions[] = {
    {"kernel_arrays", guarded<kernel_arrays>, METH_O,
     "kernel_arrays(text): (dtype, rank, read, stored, added) of each array parameter of Tile IR text; None "
     "for a scalar."},
    {"derive", guarded<derive>, METH_VARARGS,
     "derive(text, ((parameter, atomic, adds), ...), results, folded_axis): the adjoint of a kernel, a "
     "DerivedKernel; folded_axis -1: none."},
    {"record_launches", record_launches, METH_VARARGS,
     "record_launches(call, list): appends the launches of Python kernels in call(), as (kernel, grid, "
     "arguments); none runs."},
    {"passed_arguments", passed_arguments, METH_VARARGS,
     "passed_arguments(kernel, arguments): (value, number of the argument) of each parameter of the kernel's "
     "IR."},
    {"overlap", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(overlapping)), METH_FASTCALL,
     "overlap(x, y): true if two tensors share memory; overlap(x): true if two elements of one do."},
    {nullptr, nullptr, 0, nullptr},
};
PyMethodDef derived_methods[] = {
    {"iterations", iterations, METH_VARARGS,
     "iterations(scratch, grid, arguments): the most iterations that a scratch array keeps values of."},
    {"launch", launch, METH_VARARGS, "launch(grid, arguments): runs it."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef derived_values[] = {
    {"text", text_of, nullptr, "The Tile IR.", nullptr},
    {"gradients", gradients_of, nullptr,
     "(parameter, how, axes, dtype, text, covers) of each gradient, which follow those of the results. "
     "covers: (axis of the grid, extent of a tile, whole) of each axis of what is stored; empty: nothing is "
     "known.",
     nullptr},
    {"scratch", scratch_of, nullptr, "(dtype, shape) of each scratch array, after [blocks, iterations].",
     nullptr},
    {"folded_axis", folded_axis_of, nullptr,
     "The axis of the grid along which a block computes several of the kernel's, whose number follows the "
     "kernel's arguments; -1: none.",
     nullptr},
    {"grid_axes", grid_axes_of, nullptr, "The axes of the grid that the kernel asks for.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot derived_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_derived)},
                               {Py_tp_methods, derived_methods},
                               {Py_tp_getset, derived_values},
                               {0, nullptr}};
PyType_Spec derived_spec = {"tile_ops._C.DerivedKernel", sizeof(DerivedObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, derived_slots};
PyMethodDef cache_methods[] = {
    {"get", cached, METH_VARARGS,
     "get(kernel, arguments): what was set for such arguments of the kernel, or None."},
    {"set", cache, METH_VARARGS, "set(kernel, arguments, value): keeps a value for such arguments."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot cache_slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_cache)},
                             {Py_tp_dealloc, reinterpret_cast<void*>(free_cache)},
                             {Py_tp_methods, cache_methods},
                             {0, nullptr}};
PyType_Spec cache_spec = {"tile_ops._C.LaunchCache", sizeof(CacheObject), 0, Py_TPFLAGS_DEFAULT, cache_slots};

}  // namespace

int add_derived_kernel(PyObject* module) {
  derived_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&derived_spec));
  cache_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&cache_spec));
  if (!derived_type || !cache_type || PyModule_AddFunctions(module, functions) < 0) return -1;
  if (PyModule_AddObjectRef(module, "DerivedKernel", reinterpret_cast<PyObject*>(derived_type)) < 0)
    return -1;
  return PyModule_AddObjectRef(module, "LaunchCache", reinterpret_cast<PyObject*>(cache_type));
}

}  // namespace tile::python
