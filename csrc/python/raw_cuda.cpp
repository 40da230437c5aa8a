// CUDA C++ kernels in Python: kernel[grid, block](*arguments), by vectorcall.
#include "python/module.h"

#include <structmember.h>

#include <cstddef>
#include <new>

#include "driver/current_stream.h"
#include "raw_cuda/raw_kernel.h"
#include "runtime/inspection.h"
#include "torch/raw_argument.h"

namespace tile::python {
namespace {

struct KernelObject {
  PyObject_HEAD RawKernel* kernel;
  bool warm;  // has been launched before
};
// The callable kernel[grid, block].
struct LaunchObject {
  PyObject_HEAD vectorcallfunc call;
  KernelObject* kernel;
  RawGrid grid;
};
PyTypeObject* launch_type = nullptr;

const RawKernel& kernel_of(PyObject* self) { return *reinterpret_cast<KernelObject*>(self)->kernel; }

// The arguments of one launch. It holds the buffers of structs until the launch has returned.
class Arguments {
 public:
  Arguments(const RawKernel& kernel, PyObject* const* given, size_t count) : kernel_(kernel) {
    if (count > RawKernel::most_arguments)
      fail(ErrorKind::type, kernel.name(), ": is given ", count, " arguments; the most is ",
           RawKernel::most_arguments);
    for (; count_ < count; ++count_)
      new (space_ + count_ * sizeof(RawArgument)) RawArgument(converted(given[count_]));
  }
  ~Arguments() {
    for (Py_buffer& buffer : buffers_) PyBuffer_Release(&buffer);
  }
  Arguments(const Arguments&) = delete;
  std::span<const RawArgument> all() const { return {reinterpret_cast<const RawArgument*>(space_), count_}; }

 private:
  RawArgument converted(PyObject* value) {
    if (const at::Tensor* tensor = tensor_in(value)) return to_raw_argument(*tensor);
    if (PyFloat_Check(value)) return PyFloat_AS_DOUBLE(value);
    if (PyBool_Check(value)) return value == Py_True;
    if (PyLong_Check(value)) return integer(value);
    if (value == Py_None) return nullptr;
    return other(value);
  }
  RawArgument integer(PyObject* value) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow) return static_cast<int64_t>(number);
    const unsigned long long natural = overflow > 0 ? PyLong_AsUnsignedLongLong(value) : 0;
    if (overflow > 0 && !PyErr_Occurred()) return static_cast<uint64_t>(natural);
    PyErr_Clear();
    fail(ErrorKind::value, kernel_.name(), ": argument ", count_ + 1,
         " has more than 64 bits; no parameter takes it");
  }
  // Converts numbers of other libraries such as NumPy; bytes, ctypes structures and other objects with a
  // buffer.
  RawArgument other(PyObject* value) {
    if (PyIndex_Check(value)) {
      if (const Owned number{PyNumber_Index(value)}) return integer(number.get());
    } else if (PyNumber_Check(value)) {
      if (const Owned number{PyNumber_Float(value)}) return PyFloat_AS_DOUBLE(number.get());
    } else if (Py_buffer buffer; PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE) == 0) {
      buffers_.push_back(buffer);
      return RawArgument::bytes(buffer.buf, static_cast<size_t>(buffer.len));
    }
    PyErr_Clear();
    fail(ErrorKind::type, kernel_.name(), ": argument ", count_ + 1, " is of type ", Py_TYPE(value)->tp_name,
         "; give a tensor, a number, None, or the bytes of a struct");
  }

  const RawKernel& kernel_;
  size_t count_ = 0;
  alignas(RawArgument) std::byte space_[RawKernel::most_arguments * sizeof(RawArgument)];
  std::vector<Py_buffer> buffers_;
};

PyObject* launch(PyObject* self, PyObject* const* given, size_t flags, PyObject* names) {
  auto* launch = reinterpret_cast<LaunchObject*>(self);
  try {
    const RawKernel& kernel = *launch->kernel->kernel;
    if (names && PyTuple_GET_SIZE(names))
      fail(ErrorKind::type, kernel.name(),
           ": takes no arguments by name; give them in the order of its parameters");
    const Arguments arguments(kernel, given, static_cast<size_t>(PyVectorcall_NARGS(flags)));
    const std::vector<CType>* parameters;
    {
      const Released released(!launch->kernel->warm);  // the first launch may compile
      parameters = &kernel.launch_raw(launch->grid, arguments.all());
    }
    for (size_t i = 0; i < parameters->size(); ++i)
      if (const at::Tensor* tensor = tensor_in(given[i]); tensor && (*parameters)[i].writes)
        note_write(*tensor);
    launch->kernel->warm = true;
    Py_RETURN_NONE;
  } catch (const std::exception& error) {
    set_error(error);
    return nullptr;
  }
}

int64_t number(const RawKernel& kernel, PyObject* value, const char* what) {
  const long long number =
      PyLong_Check(value) ? PyLong_AsLongLong(value) : PyNumber_AsSsize_t(value, nullptr);
  if (number != -1 || !PyErr_Occurred()) return number;
  PyErr_Clear();
  fail(ErrorKind::type, kernel.name(), ": the ", what, " is of type ", Py_TYPE(value)->tp_name,
       "; give an integer, or a tuple of up to three");
}
void axes(const RawKernel& kernel, PyObject* value, const char* what, std::array<int64_t, 3>& to) {
  if (!PyTuple_Check(value) && !PyList_Check(value)) {
    to[0] = number(kernel, value, what);
    return;
  }
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
  if (count > 3)
    fail(ErrorKind::value, kernel.name(), ": the ", what, " has ", count, " axes; the most is 3");
  for (Py_ssize_t i = 0; i < count; ++i)
    to[static_cast<size_t>(i)] = number(kernel, PySequence_Fast_GET_ITEM(value, i), what);
}

// Implements kernel[grid, block] and kernel[grid, block, shared_bytes].
PyObject* subscript(PyObject* self, PyObject* key) {
  try {
    const RawKernel& kernel = kernel_of(self);
    const Py_ssize_t count = PyTuple_Check(key) ? PyTuple_GET_SIZE(key) : 1;
    if (count != 2 && count != 3)
      fail(ErrorKind::type, kernel.name(), ": [", count == 1 ? "one value" : str(count, " values"),
           "]; write kernel[grid, block](…) or kernel[grid, block, shared_bytes](…)");
    RawGrid grid;
    axes(kernel, PyTuple_GET_ITEM(key, 0), "grid", grid.grid);
    axes(kernel, PyTuple_GET_ITEM(key, 1), "block", grid.block);
    if (count == 3) grid.shared_bytes = number(kernel, PyTuple_GET_ITEM(key, 2), "shared memory");
    auto* made = PyObject_New(LaunchObject, launch_type);
    if (!made) return nullptr;
    made->call = launch;
    made->kernel = reinterpret_cast<KernelObject*>(Py_NewRef(self));
    new (&made->grid) RawGrid(grid);
    return reinterpret_cast<PyObject*>(made);
  } catch (const std::exception& error) {
    set_error(error);
    return nullptr;
  }
}

void free_launch(PyObject* self) {
  Py_DECREF(reinterpret_cast<LaunchObject*>(self)->kernel);
  PyObject_Free(self);
  Py_DECREF(launch_type);
}
void free_kernel(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<KernelObject*>(self)->kernel;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* name(PyObject* self, void*) { return PyUnicode_FromString(kernel_of(self).name().c_str()); }
PyObject* source(PyObject* self, void*) {
  return PyUnicode_FromString(kernel_of(self).source()->source().c_str());
}

// _compile(arch): returns the types of the parameters.
PyObject* compile(PyObject* self, PyObject* argument) {
  const long arch = PyLong_AsLong(argument);
  if (arch == -1 && PyErr_Occurred()) return nullptr;
  std::vector<std::string> types;
  {
    const Released released(true);
    for (const CType& type : kernel_of(self).compiled(static_cast<int>(arch)).parameters)
      types.push_back(type.text);
  }
  return strings(types);
}
// _inspect(what, arch): `what` is "ptx" or "code".
PyObject* inspect(PyObject* self, PyObject* arguments) {
  const char* what;
  int arch;
  if (!PyArg_ParseTuple(arguments, "si", &what, &arch)) return nullptr;
  const RawKernel& kernel = kernel_of(self);
  InspectedKernel row{.name = kernel.name(), .arch = arch};
  const auto kind = std::string(what) == "ptx" ? Inspection::What::ptx : Inspection::What::code;
  compile_for_inspection(row, kind, kernel.source()->request(arch), kernel.compiled(arch).symbol,
                         CubinCompiler::get());
  return row_of(row);
}
// _set(name, device, tensor or buffer): device -1 is the current one.
PyObject* set_variable(PyObject* self, PyObject* arguments) {
  const char* name;
  int device;
  PyObject* value;
  if (!PyArg_ParseTuple(arguments, "siO", &name, &device, &value)) return nullptr;
  const CudaSource& source = *kernel_of(self).source();
  if (device < 0) device = current_device();
  if (const at::Tensor* tensor = tensor_in(value)) {
    source.set_variable(device, name, tensor->data_ptr(), tensor->nbytes(), tensor->is_cuda());
    Py_RETURN_NONE;
  }
  Py_buffer buffer;
  if (PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)) return nullptr;
  try {
    source.set_variable(device, name, buffer.buf, static_cast<size_t>(buffer.len), false);
  } catch (...) {
    PyBuffer_Release(&buffer);
    throw;
  }
  PyBuffer_Release(&buffer);
  Py_RETURN_NONE;
}

bool texts_of(PyObject* list, std::vector<std::string>& texts) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(PyList_GET_ITEM(list, i), &size);
    if (!text) return false;
    texts.emplace_back(text, static_cast<size_t>(size));
  }
  return true;
}

// raw_kernels(type, source, names, file, header names, header texts, options, cluster, programmatic): returns
// the kernels.
PyObject* raw_kernels(PyObject*, PyObject* arguments) {
  PyTypeObject* type;
  const char *source, *file;
  Py_ssize_t source_size;
  PyObject *names, *header_names, *header_texts, *options;
  CudaSourceOptions wanted;
  auto& [x, y, z] = wanted.cluster;
  int programmatic;
  if (!PyArg_ParseTuple(arguments, "O!s#O!sO!O!O!(III)p", &PyType_Type, &type, &source, &source_size,
                        &PyList_Type, &names, &file, &PyList_Type, &header_names, &PyList_Type, &header_texts,
                        &PyList_Type, &options, &x, &y, &z, &programmatic))
    return nullptr;
  wanted.file = file;
  wanted.programmatic = programmatic;
  std::vector<std::string> name_list, headers, texts;
  if (!texts_of(names, name_list) || !texts_of(header_names, headers) || !texts_of(header_texts, texts) ||
      !texts_of(options, wanted.options))
    return nullptr;
  for (size_t i = 0; i < headers.size(); ++i) wanted.headers.emplace_back(headers[i], texts.at(i));
  const auto shared = std::make_shared<const CudaSource>(
      std::string(source, static_cast<size_t>(source_size)), name_list, std::move(wanted));
  Owned list(PyList_New(0));
  for (size_t i = 0; list && i < name_list.size(); ++i) {
    const Owned object(type->tp_alloc(type, 0));
    if (!object) return nullptr;
    reinterpret_cast<KernelObject*>(object.get())->kernel = new RawKernel(shared, i);
    if (PyList_Append(list.get(), object.get()) < 0) return nullptr;
  }
  return list.release();
}

PyMethodDef kernel_methods[] = {
    {"_compile", guarded<compile>, METH_O, "_compile(arch): the types of its parameters."},
    {"_inspect", guarded<inspect>, METH_VARARGS, "_inspect(what, arch): a row as of inspect."},
    {"_set", guarded<set_variable>, METH_VARARGS, "_set(variable, device, value)"},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef kernel_values[] = {
    {"name", name, nullptr, "As it was given: \"scale<float, 4>\".", nullptr},
    {"source", source, nullptr, "The text.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot kernel_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_kernel)},
                              {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
                              {Py_tp_methods, kernel_methods},
                              {Py_tp_getset, kernel_values},
                              {0, nullptr}};
PyType_Spec kernel_spec = {"tile_ops._C.RawKernel", sizeof(KernelObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           kernel_slots};
PyMemberDef launch_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(LaunchObject, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot launch_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_launch)},
                              {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                              {Py_tp_members, launch_members},
                              {0, nullptr}};
PyType_Spec launch_spec = {
    "tile_ops._C.RawLaunch", sizeof(LaunchObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, launch_slots};
PyMethodDef methods[] = {
    {"raw_kernels", guarded<raw_kernels>, METH_VARARGS,
     "The kernels of a source, objects of a type of RawKernel."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_raw_cuda(PyObject* module) {
  launch_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&launch_spec));
  const Owned type(PyType_FromSpec(&kernel_spec));
  if (!launch_type || !type || PyModule_AddObjectRef(module, "RawKernel", type.get()) < 0) return -1;
  return PyModule_AddFunctions(module, methods);
}

}  // namespace tile::python
