// _C.SavedBytes: what the launches of an operator in Python save for its gradient.
#include "torch/saved_bytes.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>

#include "python/derived_kernel.h"
#include "python/raising.h"
#include "runtime/launch_observer.h"
#include "torch/args.h"

namespace tile::python {
namespace {

struct BytesObject {
  PyObject_HEAD SavedBytes* bytes;
};
PyTypeObject* bytes_type = nullptr;
SavedBytes& bytes_of(PyObject* self) { return *reinterpret_cast<BytesObject*>(self)->bytes; }

PyObject* new_bytes(PyTypeObject*, PyObject*, PyObject*) {
  auto* made = PyObject_New(BytesObject, bytes_type);
  if (made) made->bytes = new SavedBytes;
  return reinterpret_cast<PyObject*>(made);
}
void free_bytes(PyObject* self) {
  delete reinterpret_cast<BytesObject*>(self)->bytes;
  PyObject_Free(self);
  Py_DECREF(bytes_type);
}

const at::Tensor& tensor_of(PyObject* object) {
  const at::Tensor* tensor = tensor_in(object);
  if (!tensor) fail(ErrorKind::type, "SavedBytes: takes a tensor");
  return *tensor;
}

// add(kernel, (x, y, z), arguments, cpu). Tensors may be fake.
PyObject* add(PyObject* self, PyObject* arguments) {
  PyObject *kernel, *given;
  long long x, y, z;
  int cpu;
  if (!PyArg_ParseTuple(arguments, "O(LLL)O!p", &kernel, &x, &y, &z, &PyTuple_Type, &given, &cpu))
    return nullptr;
  return raising([&] {
    bytes_of(self).add(*reverse_kernel_in(kernel), sizes_in({x, y, z}, given), cpu != 0);
    return Py_NewRef(Py_None);
  });
}
PyObject* skip(PyObject* self, PyObject*) {
  bytes_of(self).skip();
  Py_RETURN_NONE;
}

// launch(kernel, (x, y, z), arguments, traced, plan, memory).
PyObject* launch(PyObject* self, PyObject* arguments) {
  PyObject *kernel, *given, *traced, *planned, *memory;
  long long x, y, z;
  if (!PyArg_ParseTuple(arguments, "O(LLL)O!OO!O", &kernel, &x, &y, &z, &PyTuple_Type, &given, &traced,
                        bytes_type, &planned, &memory))
    return nullptr;
  return raising([&] {
    SavedBytes& bytes = bytes_of(self);
    const SavedBytes& plan = bytes_of(planned);
    const at::Tensor& bytes_there = tensor_of(memory);
    const size_t place = bytes.launches().size();
    if (place >= plan.launches().size() || !plan.launches()[place].kernel) {
      bytes.skip();
      return Py_NewRef(Py_False);
    }
    const Grid grid{x, y, z};
    const Call call(kernel, PySequence_Fast_ITEMS(given), static_cast<size_t>(PyTuple_GET_SIZE(given)),
                    false);
    const std::shared_ptr<ReverseKernel> own = traced_kernel(kernel, given, call.key(), traced);
    std::vector<Argument> list = arguments_of(call);
    const SavedBytes::Launch& saved = bytes.add(*own, grid, list);
    if (!saved.kernel || saved.tag != plan.launches()[place].tag || bytes.count() > bytes_there.numel())
      return Py_NewRef(Py_False);
    if (!LaunchObserver::of_thread()) call.check_written(saved.kernel->touched());
    {
      const Released released(true);
      const at::AutoDispatchBelowADInplaceOrView below;
      for (const at::Tensor& each : saved.views(bytes_there)) list.emplace_back(to_array_argument(each));
      saved.kernel->launched().launch(grid, list);
    }
    return Py_NewRef(Py_True);
  });
}

PyObject* allocated(PyObject* self, PyObject* like) {
  return raising([&] { return python_value(c10::IValue(bytes_of(self).allocated(tensor_of(like)))); });
}
PyObject* fits(PyObject* self, PyObject* memory) {
  return raising([&] { return PyBool_FromLong(bytes_of(self).fits(tensor_of(memory))); });
}
PyObject* compared(PyObject* self, PyObject* other, int how) {
  if ((how != Py_EQ && how != Py_NE) || !PyObject_TypeCheck(other, bytes_type)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((bytes_of(self) == bytes_of(other)) == (how == Py_EQ));
}
PyObject* count(PyObject* self, void*) { return PyLong_FromLongLong(bytes_of(self).count()); }

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}
// plan_key(values).
PyObject* plan_key(PyObject*, PyObject* values) {
  return raising([&]() -> PyObject* {
    if (!PyTuple_CheckExact(values)) fail(ErrorKind::type, "plan_key: takes a tuple");
    std::string bytes;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) {
      PyObject* value = PyTuple_GET_ITEM(values, i);
      append(bytes, Py_TYPE(value));
      if (const at::Tensor* tensor = tensor_in(value)) {
        if (tensor->unsafeGetTensorImpl()->is_python_dispatch()) Py_RETURN_NONE;
        append(bytes, tensor->scalar_type());
        append(bytes, tensor->device());
        append(bytes, tensor->dim());
        for (const int64_t size : tensor->sizes()) append(bytes, size);
        for (const int64_t stride : tensor->strides()) append(bytes, stride);
      } else if (PyFloat_CheckExact(value)) {
        append(bytes, PyFloat_AS_DOUBLE(value));
      } else if (PyLong_CheckExact(value) || PyBool_Check(value)) {
        int overflow;
        append(bytes, PyLong_AsLongLongAndOverflow(value, &overflow));
        if (overflow) Py_RETURN_NONE;
      } else if (value != Py_None) {
        Py_RETURN_NONE;
      }
    }
    return PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
  });
}

PyMethodDef functions[] = {
    {"plan_key", plan_key, METH_O,
     "plan_key(values): bytes that differ where types, numbers, or dtypes, devices, shapes or strides of "
     "tensors do; None if a value of the tuple is something else, such as a fake tensor."},
    {nullptr, nullptr, 0, nullptr},
};
PyMethodDef methods[] = {
    {"add", add, METH_VARARGS,
     "add(kernel, grid, arguments, cpu): appends what a launch of a ReverseKernel saves. Tensors may be "
     "fake."},
    {"skip", skip, METH_NOARGS, "skip(): appends a launch that saves nothing."},
    {"launch", launch, METH_VARARGS,
     "launch(kernel, grid, arguments, traced, plan, memory): appends a launch of a kernel in Python, which "
     "saves into memory that was allocated for the plan, another SavedBytes. Returns False, and launches "
     "nothing, if this is not a launch that the plan lets save. traced: returns the Traced of a launch that "
     "is not cached."},
    {"allocated", allocated, METH_O, "allocated(like): memory for the tiles, on the device of a tensor."},
    {"fits", fits, METH_O, "fits(memory): true if memory was allocated for the same launches."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef values[] = {
    {"count", count, nullptr, "The bytes of all tiles.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_bytes)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(free_bytes)},
                       {Py_tp_richcompare, reinterpret_cast<void*>(compared)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, values},
                       {0, nullptr}};
PyType_Spec spec = {"tile_ops._C.SavedBytes", sizeof(BytesObject), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

int add_saved_bytes(PyObject* module) {
  bytes_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!bytes_type || PyModule_AddFunctions(module, functions) < 0) return -1;
  return PyModule_AddObjectRef(module, "SavedBytes", reinterpret_cast<PyObject*>(bytes_type));
}

}  // namespace tile::python
