// Derived kernels for Python: the gradients of Tile IR text, a cache by the key of a launch, and the record
// of the launches of a function, which are not run.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <list>

#include "derive/kept_values.h"
#include "ir/print.h"
#include "python/derived_kernel.h"
#include "runtime/launch_observer.h"
#include "torch/args.h"
#include "torch/overlap.h"
#include "torch/reverse_launch.h"

namespace tile::python {
namespace {

std::string dtype_name(DType dtype) { return std::string(info(dtype).name); }

struct ReverseObject {
  PyObject_HEAD std::shared_ptr<ReverseKernel>* kernel;
};
PyTypeObject* reverse_type = nullptr;
ReverseKernel& kernel_in(PyObject* self) { return **reinterpret_cast<ReverseObject*>(self)->kernel; }

PyObject* new_reverse(PyTypeObject*, PyObject* arguments, PyObject*) {
  const char* text;
  if (!PyArg_ParseTuple(arguments, "s", &text)) return nullptr;
  return raising([&]() -> PyObject* { return reverse_object(std::make_shared<ReverseKernel>(parse(text))); });
}
void free_reverse(PyObject* self) {
  delete reinterpret_cast<ReverseObject*>(self)->kernel;
  PyObject_Free(self);
  Py_DECREF(reverse_type);
}

PyObject* text_of(PyObject* self, void*) {
  return raising([&] { return PyUnicode_FromString(print(kernel_in(self).kernel()).c_str()); });
}
PyObject* arrays_of(PyObject* self, void*) {
  const ReverseKernel& kernel = kernel_in(self);
  const auto flag = [](bool value) { return value ? Py_True : Py_False; };
  Owned list(PyList_New(0));
  for (size_t i = 0; i < kernel.uses().size(); ++i) {
    const ReverseKernel::Use& use = kernel.uses()[i];
    const Type& type = kernel.kernel().body().arguments[i]->type;
    const Owned row(type.is_array()
                        ? Py_BuildValue("(siOOO)", dtype_name(type.dtype).c_str(), type.array_rank,
                                        flag(use.read), flag(use.stored), flag(use.added))
                        : Py_NewRef(Py_None));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* saved_of(PyObject* self, void*) {
  Owned list(PyList_New(0));
  for (const SavedTile& each : kernel_in(self).saved()) {
    const Owned shape(PyTuple_New(static_cast<Py_ssize_t>(each.shape.size())));
    for (size_t i = 0; shape && i < each.shape.size(); ++i)
      PyTuple_SET_ITEM(shape.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(each.shape[i]));
    const Owned row(
        shape ? Py_BuildValue("(sOs)", dtype_name(each.dtype).c_str(), shape.get(), each.replaces.c_str())
              : nullptr);
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}

// Returns the numbers of a tuple; throws PythonFailure.
std::vector<size_t> numbers_in(PyObject* tuple) {
  std::vector<size_t> list;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    list.push_back(PyLong_AsSize_t(PyTuple_GET_ITEM(tuple, i)));
  if (PyErr_Occurred()) throw PythonFailure();
  return list;
}
template <class F>
PyObject* with_kernel(PyObject* self, PyObject* arguments, const F& function) {
  PyObject *inputs, *results;
  if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &inputs, &PyTuple_Type, &results)) return nullptr;
  return raising([&]() -> PyObject* {
    const std::vector<size_t> parameters = numbers_in(inputs), of = numbers_in(results);
    const auto derived = [&](Sharing sharing) -> const ReverseKernel::Made& {
      std::vector<Wanted> wanted;
      for (const size_t each : parameters) wanted.push_back({each, sharing});
      return kernel_in(self).derived(wanted, of);
    };
    return function(derived(Sharing::partial), derived(Sharing::owner));
  });
}

// The arguments of a launch, as the parameters of a kernel want them.
std::vector<Argument> arguments_in(PyObject* given, const std::vector<Value*>& parameters) {
  std::vector<Argument> list;
  const auto scalar = [](PyObject* value, DType dtype) {
    if (dtype == DType::f32) return scalar_argument(static_cast<float>(PyFloat_AsDouble(value)));
    if (dtype == DType::f64) return scalar_argument(PyFloat_AsDouble(value));
    if (dtype == DType::boolean) return scalar_argument(PyObject_IsTrue(value) == 1);
    if (dtype == DType::i64) return scalar_argument(static_cast<int64_t>(PyLong_AsLongLong(value)));
    return scalar_argument(static_cast<int>(PyLong_AsLong(value)));
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    PyObject* value = PyTuple_GET_ITEM(given, i);
    if (const at::Tensor* tensor = tensor_in(value))
      list.emplace_back(to_array_argument(*tensor));
    else
      list.emplace_back(scalar(value, parameters.at(static_cast<size_t>(i))->type.dtype));
    if (PyErr_Occurred()) throw PythonFailure();
  }
  return list;
}
// report((parameter, …), (result, …), arguments, (x, y, z) or None): the ways of gradients, and (way, tile)
// of what is kept. Without a grid, all that has a bound is kept for each iteration.
PyObject* report(PyObject* self, PyObject* arguments) {
  PyObject *inputs, *results, *given, *blocks;
  if (!PyArg_ParseTuple(arguments, "O!O!O!O", &PyTuple_Type, &inputs, &PyTuple_Type, &results, &PyTuple_Type,
                        &given, &blocks))
    return nullptr;
  long long x = 1, y = 1, z = 1;
  if (blocks != Py_None && !PyArg_ParseTuple(blocks, "LLL", &x, &y, &z)) return nullptr;
  const Owned wanted(PyTuple_Pack(2, inputs, results));
  return with_kernel(self, wanted.get(), [&](const auto& made, const auto& transposed) -> PyObject* {
    Owned gradients(PyList_New(0)), scratch(PyList_New(0));
    const auto append = [](const Owned& list, PyObject* item) {
      const Owned owned(item);
      if (!list || !owned || PyList_Append(list.get(), owned.get()) < 0) throw PythonFailure();
    };
    for (size_t i = 0; i < made.derived.gradients.size(); ++i) {
      const DerivedGradient& other = transposed.derived.gradients[i];
      const std::string text = how_text(made.derived.gradients[i]) +
                               (other.how == DerivedGradient::owned ? ", or " + how_text(other) : "");
      append(gradients, PyUnicode_FromString(text.c_str()));
    }
    if (!made.derived.scratch.empty()) {
      ReverseKernel& kernel = kernel_in(self);
      const std::vector<Argument> list = arguments_in(given, kernel.kernel().body().arguments);
      const LaunchSizes sizes = sizes_of({x, y, z}, list);
      std::vector<Keeping> keeping = choose_keeping(made.derived, sizes);
      if (blocks == Py_None) std::replace(keeping.begin(), keeping.end(), Keeping::segments, Keeping::all);
      std::vector<Wanted> parameters;
      for (const DerivedGradient& each : made.derived.gradients) parameters.push_back({each.parameter});
      const Derived& kept = kernel.derived(parameters, made.derived.results, -1, keeping).derived;
      for (const DerivedScratch& each : kept.scratch)
        if (!each.in_segment)
          append(scratch, Py_BuildValue("(ss)", keeping_text(kept, each, sizes).c_str(),
                                        str(each.dtype, "[", join(each.shape), "]").c_str()));
    }
    return Py_BuildValue("(NN)", gradients.release(), scratch.release());
  });
}
// source((parameter, …), (result, …)).
PyObject* source(PyObject* self, PyObject* arguments) {
  return with_kernel(self, arguments, [](const auto& made, const auto& transposed) {
    std::vector<std::string> texts{print(made.derived.function)};
    if (!transposed.derived.transposed.empty()) texts.push_back(print(transposed.derived.function));
    if (transposed.derived.remainder) texts.push_back(print(*transposed.derived.remainder));
    for (const TransposedKernel& each : transposed.derived.transposed) texts.push_back(print(each.function));
    const Owned list(PyList_New(0));
    for (const std::string& text : texts) {
      const Owned word(PyUnicode_FromString(text.c_str()));
      if (!list || !word || PyList_Append(list.get(), word.get()) < 0) throw PythonFailure();
    }
    return Py_NewRef(list.get());
  });
}

at::Tensor tensor_at(PyObject* object) {
  const at::Tensor* tensor = tensor_in(object);
  if (!tensor) fail(ErrorKind::type, "a gradient is no tensor; give one like the argument");
  return *tensor;
}

// saving((x, y, z), arguments, inputs, results, cpu, everything=False). Tensors may be fake.
PyObject* saving(PyObject* self, PyObject* arguments) {
  long long x, y, z;
  PyObject *given, *inputs, *results;
  int cpu, everything = 0;
  if (!PyArg_ParseTuple(arguments, "(LLL)O!O!O!p|p", &x, &y, &z, &PyTuple_Type, &given, &PyTuple_Type,
                        &inputs, &PyTuple_Type, &results, &cpu, &everything))
    return nullptr;
  return raising([&]() -> PyObject* {
    const LaunchSizes sizes = sizes_in({x, y, z}, given);
    auto made =
        kernel_in(self).saving(numbers_in(inputs), numbers_in(results), sizes, cpu != 0, everything != 0);
    if (!made) Py_RETURN_NONE;
    return reverse_object(std::move(made));
  });
}

// launch(name, (x, y, z), arguments, results, incoming, ((parameter, tensor, adds), …), way=None).
PyObject* launch(PyObject* self, PyObject* arguments) {
  const char* name;
  long long x, y, z;
  PyObject *given, *results, *incoming, *targets, *way = Py_None;
  if (!PyArg_ParseTuple(arguments, "s(LLL)O!O!O!O!|O", &name, &x, &y, &z, &PyTuple_Type, &given,
                        &PyTuple_Type, &results, &PyTuple_Type, &incoming, &PyTuple_Type, &targets, &way))
    return nullptr;
  return raising([&]() -> PyObject* {
    ReverseKernel& kernel = kernel_in(self);
    const std::vector<Argument> list = arguments_in(given, kernel.kernel().body().arguments);
    GradientLaunch launched{name, kernel, {x, y, z}, list, numbers_in(results), {}, {}};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(incoming); ++i)
      launched.incoming.push_back(tensor_at(PyTuple_GET_ITEM(incoming, i)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(targets); ++i) {
      Py_ssize_t parameter;
      PyObject* tensor;
      int adds;
      if (!PyArg_ParseTuple(PyTuple_GET_ITEM(targets, i), "nOp", &parameter, &tensor, &adds)) return nullptr;
      launched.targets.push_back({static_cast<size_t>(parameter), tensor_at(tensor), adds != 0});
    }
    launched.way = way_in(way);
    {
      const Released released(true);
      const at::NoGradGuard no_grad;
      launch_gradients(launched);
    }
    return Py_NewRef(Py_None);
  });
}

void require_kernel(PyObject* kernel) {
  if (is_kernel(kernel)) return;
  PyErr_Format(PyExc_TypeError, "%R is no kernel; make one with tile_ops.language.kernel", kernel);
  throw PythonFailure();
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
PyObject *traced_launches_name, *kernel_name;  // names of attributes
std::list<Entry>& entries_of(PyObject* self) { return *reinterpret_cast<CacheObject*>(self)->entries; }
// Returns what a cache holds for a key, borrowed, or null.
PyObject* cached_value(PyObject* cache, const LaunchKey& key) {
  TILE_CHECK(PyObject_TypeCheck(cache, cache_type), "this is no LaunchCache");
  for (const Entry& entry : entries_of(cache))
    if (entry.key == key) return entry.value.get();
  return nullptr;
}

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

}  // namespace

std::shared_ptr<ReverseKernel> reverse_kernel_in(PyObject* object) {
  TILE_CHECK(PyObject_TypeCheck(object, reverse_type), "this is no ReverseKernel");
  return *reinterpret_cast<ReverseObject*>(object)->kernel;
}
PyObject* reverse_object(std::shared_ptr<ReverseKernel> kernel) {
  auto* made = PyObject_New(ReverseObject, reverse_type);
  if (made) made->kernel = new std::shared_ptr<ReverseKernel>(std::move(kernel));
  return reinterpret_cast<PyObject*>(made);
}

std::shared_ptr<ReverseKernel> traced_kernel(PyObject* kernel, PyObject* arguments, const LaunchKey& key,
                                             PyObject* traced) {
  const Owned caches(PyObject_GetAttr(kernel, traced_launches_name));  // (cache, texts)
  if (!caches) PyErr_Clear();
  PyObject* known = caches ? cached_value(PyTuple_GET_ITEM(caches.get(), 0), key) : nullptr;
  const Owned found(known ? Py_NewRef(known)
                          : PyObject_CallFunctionObjArgs(traced, kernel, arguments, nullptr));
  const Owned made(found ? PyObject_GetAttr(found.get(), kernel_name) : nullptr);
  if (!made) throw PythonFailure();
  return reverse_kernel_in(made.get());
}
std::vector<Argument> arguments_of(const Call& call) {
  std::vector<Argument> list;
  list.reserve(call.arguments().size());
  for (const ArgumentRef& each : call.arguments())
    each.array ? list.emplace_back(*each.array) : list.emplace_back(*each.scalar);
  return list;
}

LaunchSizes sizes_in(const Grid& grid, PyObject* arguments) {
  const auto item = [arguments](size_t i) {
    PyObject* value = i < static_cast<size_t>(PyTuple_GET_SIZE(arguments))
                          ? PyTuple_GET_ITEM(arguments, static_cast<Py_ssize_t>(i))
                          : nullptr;
    if (!value) fail(ErrorKind::type, "saving: there is no argument ", i);
    return value;
  };
  LaunchSizes sizes{{grid.x, grid.y, grid.z}, {}, {}};
  sizes.extent = [item](size_t parameter, int64_t axis) {
    const at::Tensor* tensor = tensor_in(item(parameter));
    if (!tensor) fail(ErrorKind::type, "saving: argument ", parameter, " is no tensor");
    return tensor->size(axis);
  };
  sizes.scalar = [item](size_t parameter) {
    const auto number = static_cast<int64_t>(PyLong_AsLongLong(item(parameter)));
    if (PyErr_Occurred()) throw PythonFailure();
    return number;
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i)
    if (const at::Tensor* tensor = tensor_in(PyTuple_GET_ITEM(arguments, i)))
      sizes.bytes += tensor->numel() * tensor->itemsize();
  return sizes;
}

std::optional<GradientWay> way_in(PyObject* numbers) {
  if (numbers == Py_None) return std::nullopt;
  int sharing, folded_axis, keeping = -1, places = -1;
  if (!PyArg_ParseTuple(numbers, "ii|ii", &sharing, &folded_axis, &keeping, &places)) throw PythonFailure();
  GradientWay way{static_cast<Sharing>(sharing), folded_axis};
  if (keeping >= 0) way.keeping = static_cast<Keeping>(keeping);
  if (places > 0) way.places = places;
  return way;
}

namespace {

PyObject* cached(PyObject* self, PyObject* arguments) {
  PyObject *kernel, *given;
  if (!PyArg_ParseTuple(arguments, "OO!", &kernel, &PyTuple_Type, &given)) return nullptr;
  return raising([&] {
    require_kernel(kernel);
    const Call call(kernel, PySequence_Fast_ITEMS(given), static_cast<size_t>(PyTuple_GET_SIZE(given)),
                    false);
    PyObject* const known = cached_value(self, call.key());
    return Py_NewRef(known ? known : Py_None);
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

// replace_launches(call, function): calls function(kernel, grid, arguments) for each launch of a Python
// kernel in call().
PyObject* replace_launches(PyObject*, PyObject* arguments) {
  PyObject *call, *function;
  if (!PyArg_ParseTuple(arguments, "OO", &call, &function)) return nullptr;
  return raising([&] {
    const RecordedLaunches replaced(function);
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
    const bool found = count == 2 ? overlap(*x, *y) : overlaps_itself(*x);
    return PyBool_FromLong(found);
  });
}

PyMethodDef functions[] = {
    {"record_launches", record_launches, METH_VARARGS,
     "record_launches(call, list): appends the launches of Python kernels in call(), as (kernel, grid, "
     "arguments); none runs."},
    {"replace_launches", replace_launches, METH_VARARGS,
     "replace_launches(call, function): runs call(), in which function(kernel, grid, arguments) is called in "
     "the place of each launch of a Python kernel."},
    {"passed_arguments", passed_arguments, METH_VARARGS,
     "passed_arguments(kernel, arguments): (value, number of the argument) of each parameter of the kernel's "
     "IR."},
    {"overlap", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(overlapping)), METH_FASTCALL,
     "overlap(x, y): true if two tensors share memory; overlap(x): true if two elements of one do."},
    {nullptr, nullptr, 0, nullptr},
};
PyMethodDef reverse_methods[] = {
    {"launch", launch, METH_VARARGS,
     "launch(name, grid, arguments, results, incoming, ((parameter, tensor, adds), ...), way=None): computes "
     "gradients. way: (number of the sharing, folded axis, number of the keeping, places) in tests; the last "
     "two may be left out."},
    {"saving", saving, METH_VARARGS,
     "saving(grid, arguments, inputs, results, cpu, everything=False): the ReverseKernel that also saves "
     "tiles for its gradient, chosen for launches of these sizes; None if it would save nothing. Tensors may "
     "be fake. everything: save all that may be saved; for tests."},
    {"report", report, METH_VARARGS,
     "report(parameters, results, arguments, grid): how the gradient of each parameter is written, and how "
     "and what of carried values is kept."},
    {"source", source, METH_VARARGS,
     "source(parameters, results): the Tile IR of the derived kernel; if there are transposed kernels, then "
     "of the one that is launched with them, and theirs."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef reverse_values[] = {
    {"text", text_of, nullptr, "The Tile IR of the kernel.", nullptr},
    {"saved", saved_of, nullptr,
     "(dtype, shape, what is not computed again) of each tile that a block of the kernel saves. The arrays, "
     "[blocks, shape…], are its last parameters.",
     nullptr},
    {"arrays", arrays_of, nullptr,
     "(dtype, rank, read, stored, added) of each array parameter; None for a scalar. added: the kernel adds "
     "to it, atomically.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot reverse_slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_reverse)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(free_reverse)},
                               {Py_tp_methods, reverse_methods},
                               {Py_tp_getset, reverse_values},
                               {0, nullptr}};
PyType_Spec reverse_spec = {"tile_ops._C.ReverseKernel", sizeof(ReverseObject), 0, Py_TPFLAGS_DEFAULT,
                            reverse_slots};
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
  traced_launches_name = PyUnicode_InternFromString("_traced_launches");
  kernel_name = PyUnicode_InternFromString("kernel");
  if (!traced_launches_name || !kernel_name) return -1;
  reverse_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&reverse_spec));
  cache_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&cache_spec));
  if (!reverse_type || !cache_type || PyModule_AddFunctions(module, functions) < 0) return -1;
  if (PyModule_AddObjectRef(module, "ReverseKernel", reinterpret_cast<PyObject*>(reverse_type)) < 0)
    return -1;
  return PyModule_AddObjectRef(module, "LaunchCache", reinterpret_cast<PyObject*>(cache_type));
}

}  // namespace tile::python
