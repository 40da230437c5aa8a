// Kernels written in Python: kernel[grid](*arguments), by vectorcall. Python translates the function when the
// key of its arguments is new; everything else is shared with kernels in C++.
#include "python/kernel_call.h"

#include <structmember.h>

#include <cstddef>
#include <optional>

#include "driver/current_stream.h"
#include "ir/print.h"
#include "torch/args.h"

namespace tile::python {
namespace {

// The callable kernel[grid].
struct LaunchObject {
  PyObject_HEAD vectorcallfunc call;
  KernelObject* kernel;
  PyObject* grid;
};
PyTypeObject *launch_type = nullptr, *kernel_type = nullptr;
PyObject *cuda_stream_name, *ptr_name;
thread_local PyObject* recorded_launches = nullptr;  // a list, or a function

[[noreturn]] void fail_grid(PyObject* grid) {
  PyErr_Format(PyExc_TypeError,
               "the grid is %R; give a tuple of one to three integers, or a function of the "
               "arguments that gives one",
               grid);
  throw PythonFailure();
}
int64_t axis_of(PyObject* grid, PyObject* value) {
  if (!PyIndex_Check(value)) fail_grid(grid);
  const Owned number(PyNumber_Index(value));
  if (!number) throw PythonFailure();
  int overflow = 0;
  const int64_t axis = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  return overflow ? INT64_MAX : axis;
}
Grid grid_of(PyObject* value) {
  if (!PyTuple_Check(value) && !PyList_Check(value)) return {axis_of(value, value), 1, 1};
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
  if (count > 3) fail_grid(value);  // () is one block
  int64_t axes[3] = {1, 1, 1};
  for (Py_ssize_t i = 0; i < count; ++i) axes[i] = axis_of(value, PySequence_Fast_GET_ITEM(value, i));
  return {axes[0], axes[1], axes[2]};
}

void record(PyObject* self, const Grid& grid, const Given& given, std::optional<void*> stream) {
  const Owned arguments(PyTuple_New(static_cast<Py_ssize_t>(given.count)));
  for (size_t i = 0; arguments && i < given.count; ++i)
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), Py_NewRef(given.values[i]));
  const Owned row(arguments ? Py_BuildValue("(O(LLL)O)", self, static_cast<long long>(grid.x),
                                            static_cast<long long>(grid.y), static_cast<long long>(grid.z),
                                            arguments.get())
                            : nullptr);
  if (!row) throw PythonFailure();
  if (PyList_Check(recorded_launches)) {
    if (PyList_Append(recorded_launches, row.get()) < 0) throw PythonFailure();
    return;
  }
  PyObject* const function = recorded_launches;
  const RecordedLaunches none(nullptr);  // the function may launch
  const std::optional<StreamScope> scope = stream ? std::optional<StreamScope>(*stream) : std::nullopt;
  const Owned done(PyObject_CallObject(function, row.get()));
  if (!done) throw PythonFailure();
}

void launch(PyObject* self, PyObject* grid, const Given& given, std::optional<void*> stream) {
  Owned made;
  if (PyCallable_Check(grid)) {
    made.reset(PyObject_Vectorcall(grid, given.values, given.count, nullptr));
    if (!made) throw PythonFailure();
    grid = made.get();
  }
  const Grid blocks = grid_of(grid);
  if (recorded_launches) [[unlikely]]
    return record(self, blocks, given, stream);
  const Call call(self, given.values, given.count, false);
  PythonKernel& kernel = kernel_of(self);
  const Released released(true);
  const std::optional<StreamScope> scope = stream ? std::optional<StreamScope>(*stream) : std::nullopt;
  call.note_written(kernel.launch_call(
      blocks, call.key(), call.arguments(), [&](Tracer& tracer) { call.trace(tracer); },
      [](const void* of, const Touched& touched) { static_cast<const Call*>(of)->check_written(touched); },
      &call));
}

PyObject* call_launch(PyObject* self, PyObject* const* given, size_t flags, PyObject* names) {
  auto* launched = reinterpret_cast<LaunchObject*>(self);
  return raising([&] {
    auto* kernel = reinterpret_cast<PyObject*>(launched->kernel);
    const Given arguments(kernel, given, static_cast<size_t>(PyVectorcall_NARGS(flags)), names);
    launch(kernel, launched->grid, arguments, std::nullopt);
    return Py_NewRef(Py_None);
  });
}

// Returns the stream of an integer, or of an object with cuda_stream or ptr; None means the current stream.
std::optional<void*> stream_of(PyObject* value) {
  if (value == Py_None) return std::nullopt;
  Owned handle;
  if (PyLong_Check(value)) {
    handle.reset(Py_NewRef(value));
  } else {
    for (PyObject* name : {cuda_stream_name, ptr_name})
      if (!handle) {
        handle.reset(PyObject_GetAttr(value, name));
        if (handle) continue;
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonFailure();
        PyErr_Clear();
      }
  }
  void* stream = handle && PyLong_Check(handle.get()) ? PyLong_AsVoidPtr(handle.get()) : nullptr;
  if (!handle || !PyLong_Check(handle.get()) || PyErr_Occurred()) {
    PyErr_Format(PyExc_TypeError,
                 "the stream is %R; give a torch.cuda.Stream, an integer handle, or None for "
                 "the current one",
                 value);
    throw PythonFailure();
  }
  return stream;
}
PyObject* launch_method(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return raising([&] {
    if (count < 1) fail(ErrorKind::type, "launch: give the grid, then the kernel's arguments");
    const auto positional = static_cast<size_t>(count - 1);
    PyObject* stream = Py_None;
    std::vector<PyObject*> values;  // everything but the stream
    Owned others;
    for (Py_ssize_t i = 0, named = names ? PyTuple_GET_SIZE(names) : 0; i < named; ++i) {
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "stream") != 0) continue;
      stream = given[count + i];
      if (named == 1) {
        names = nullptr;
        break;
      }
      values.assign(given + 1, given + count + named);
      values.erase(values.begin() + count - 1 + i);
      const Owned before(PyTuple_GetSlice(names, 0, i)), behind(PyTuple_GetSlice(names, i + 1, named));
      others.reset(before && behind ? PySequence_Concat(before.get(), behind.get()) : nullptr);
      if (!others) throw PythonFailure();
      names = others.get();
      break;
    }
    const Given arguments(self, values.empty() ? given + 1 : values.data(), positional, names);
    launch(self, given[0], arguments, stream_of(stream));
    return Py_NewRef(Py_None);
  });
}

// _ir(arguments, passes): returns the IR that these arguments, all given in order, would compile.
PyObject* ir(PyObject* self, PyObject* arguments) {
  PyObject* given;
  int passes;
  if (!PyArg_ParseTuple(arguments, "O!p", &PyTuple_Type, &given, &passes)) return nullptr;
  return raising([&] {
    const Call call(self, PySequence_Fast_ITEMS(given), static_cast<size_t>(PyTuple_GET_SIZE(given)), true);
    const Function function = kernel_of(self).trace_call([&](Tracer& tracer) { call.trace(tracer); });
    return PyUnicode_FromString((passes ? compiled_text(function) : print(function)).c_str());
  });
}

// _check_written(arguments): raises the error that a launch would raise about the memory that it writes.
PyObject* check_written(PyObject* self, PyObject* arguments) {
  PyObject* given;
  if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &given)) return nullptr;
  return raising([&] {
    const Call call(self, PySequence_Fast_ITEMS(given), static_cast<size_t>(PyTuple_GET_SIZE(given)), false);
    Touched touched;
    try {
      touched = kernel_of(self).touched_of([&](Tracer& tracer) { call.trace(tracer); });
    } catch (const PythonFailure& failure) {
      // Ctrl-C and sys.exit() must end the program.
      if (!PyObject_IsInstance(failure.raised.get(), PyExc_Exception)) throw;
      return Py_NewRef(Py_None);  // an error in the kernel's source, which a launch will raise
    } catch (const std::exception&) {
      return Py_NewRef(Py_None);
    }
    call.check_written(touched);
    return Py_NewRef(Py_None);
  });
}
// _written(arguments): returns a list that says for each argument whether a launch would write an array in
// it. Tensors may be fake.
PyObject* written(PyObject* self, PyObject* arguments) {
  PyObject* given;
  if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &given)) return nullptr;
  return raising([&]() -> PyObject* {
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(given));
    const Call call(self, PySequence_Fast_ITEMS(given), count, true);
    const uint64_t owners =
        call.owners(kernel_of(self).touched_of([&](Tracer& tracer) { call.trace(tracer); }).written);
    Owned list(PyList_New(0));
    for (size_t i = 0; list && i < count; ++i)
      if (PyList_Append(list.get(), owners >> i & 1 ? Py_True : Py_False) < 0) return nullptr;
    return list.release();
  });
}

PyObject* bind(PyObject* self, PyObject* arguments) {
  const char *name, *file, *kinds;
  unsigned line;
  PyObject* capture = nullptr;
  if (!PyArg_ParseTuple(arguments, "ssIs|O", &name, &file, &line, &kinds, &capture)) return nullptr;
  return raising([&] {
    const std::string letters = kinds;
    if (letters.size() > most_arguments)
      fail(ErrorKind::value, name, ": has ", letters.size(), " parameters; the most is ", most_arguments);
    delete std::exchange(reinterpret_cast<KernelObject*>(self)->kernel,
                         new PythonKernel(intern(name), {intern(file), line, 0}, letters));
    reinterpret_cast<KernelObject*>(self)->capture = capture;
    return Py_NewRef(Py_None);
  });
}

PyObject* subscript(PyObject* self, PyObject* grid) {
  auto* made = PyObject_New(LaunchObject, launch_type);
  if (!made) return nullptr;
  made->call = call_launch;
  made->kernel = reinterpret_cast<KernelObject*>(Py_NewRef(self));
  made->grid = Py_NewRef(grid);
  return reinterpret_cast<PyObject*>(made);
}
void free_launch(PyObject* self) {
  auto* launched = reinterpret_cast<LaunchObject*>(self);
  Py_DECREF(launched->kernel);
  Py_DECREF(launched->grid);
  PyObject_Free(self);
  Py_DECREF(launch_type);
}
void free_kernel(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<KernelObject*>(self)->kernel;
  type->tp_free(self);
  Py_DECREF(type);
}
PyObject* compiled_count(PyObject* self, void*) {
  return raising([&] { return PyLong_FromSize_t(kernel_of(self).compiled_count()); });
}

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}
// Appends bytes that distinguish arguments. Returns false if Python has to look at this one.
bool add_to_key(std::string& bytes, PyObject* value, bool by_value) {
  if (const at::Tensor* tensor = tensor_in(value)) {
    if (tensor->unsafeGetTensorImpl()->is_python_dispatch()) return false;
    append(bytes, tensor->scalar_type());
    append(bytes, static_cast<char>(tensor->device().type()));
    append(bytes, tensor->device().index());
    append(bytes, static_cast<char>(tensor->dim()));
    for (const int64_t size : tensor->sizes()) append(bytes, size);
    return true;
  }
  if (value == Py_None) return append(bytes, '\xfe'), true;  // no dtype has this byte
  const bool number = PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value);
  if (!number) return false;
  append(bytes, '\xff');  // no dtype has this byte
  append(bytes, Py_TYPE(value));
  if (!by_value) return true;
  if (PyFloat_CheckExact(value)) return append(bytes, PyFloat_AS_DOUBLE(value)), true;
  int overflow;
  append(bytes, PyLong_AsLongLongAndOverflow(value, &overflow));
  return !overflow;
}
// _arguments_key(arguments, by_value): returns bytes, or None.
PyObject* arguments_key(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return raising([&]() -> PyObject* {
    if (count != 2 || !PyTuple_CheckExact(given[0]) || !PyTuple_CheckExact(given[1]) ||
        PyTuple_GET_SIZE(given[0]) != PyTuple_GET_SIZE(given[1]))
      fail(ErrorKind::type, "_arguments_key: takes two tuples of one length");
    std::string bytes;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given[0]); ++i)
      if (!add_to_key(bytes, PyTuple_GET_ITEM(given[0], i), PyTuple_GET_ITEM(given[1], i) == Py_True))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
  });
}

PyMethodDef functions[] = {
    {"_arguments_key", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(arguments_key)),
     METH_FASTCALL,
     "_arguments_key(arguments, by_value): bytes that differ where dtype, device or shape of a tensor, or "
     "the "
     "type of a number, do, for which by_value is True also its value; None: an argument is something else."},
    {nullptr, nullptr, 0, nullptr},
};
PyMethodDef kernel_methods[] = {
    {"_bind", bind, METH_VARARGS,
     "_bind(name, file, line, kinds, capture): kinds has a letter for each parameter; the caller keeps "
     "capture, a Capture, alive."},
    {"_ir", ir, METH_VARARGS, "_ir(arguments, passes): Tile IR as text."},
    {"_check_written", check_written, METH_VARARGS,
     "_check_written(arguments): raises the error that a launch would raise about the memory that it "
     "writes."},
    {"_written", written, METH_VARARGS,
     "_written(arguments): whether a launch would write each of them, as a list. Tensors may be fake."},
    {"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launch_method)),
     METH_FASTCALL | METH_KEYWORDS,
     "launch(grid, *arguments, stream=None, **named)\n\nRuns the kernel for each block of the grid: on a CPU "
     "before it returns, on a GPU in the stream, by default torch's current one."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef kernel_values[] = {
    {"compiled_count", compiled_count, nullptr, "How many kernels were compiled so far.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot kernel_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_kernel)},
                              {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
                              {Py_tp_methods, kernel_methods},
                              {Py_tp_getset, kernel_values},
                              {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                              {0, nullptr}};
PyType_Spec kernel_spec = {"tile_ops._C.TileKernel", sizeof(KernelObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, kernel_slots};
PyMemberDef launch_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(LaunchObject, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot launch_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_launch)},
                              {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                              {Py_tp_members, launch_members},
                              {0, nullptr}};
PyType_Spec launch_spec = {
    "tile_ops._C.TileLaunch", sizeof(LaunchObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, launch_slots};

}  // namespace

RecordedLaunches::RecordedLaunches(PyObject* to) : before_(std::exchange(recorded_launches, to)) {}
RecordedLaunches::~RecordedLaunches() { recorded_launches = before_; }

bool is_kernel(PyObject* object) { return PyObject_TypeCheck(object, kernel_type); }

int add_tile_kernel(PyObject* module) {
  launch_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&launch_spec));
  kernel_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kernel_spec));
  for (const auto& [name, text] : {std::pair{&cuda_stream_name, "cuda_stream"}, {&ptr_name, "ptr"}})
    if (!(*name = PyUnicode_InternFromString(text))) return -1;
  if (make_call_names() < 0 || PyModule_AddFunctions(module, functions) < 0) return -1;
  if (!launch_type || !kernel_type) return -1;
  return PyModule_AddObjectRef(module, "TileKernel", reinterpret_cast<PyObject*>(kernel_type));
}

}  // namespace tile::python
