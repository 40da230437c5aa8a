// ModuleCall: calls an operator with attributes of a module, for the forward of a patched module.
#include "python/plain_call.h"

#include <structmember.h>

#include <cstddef>

// Declared here because ATen/autocast_mode.h includes all of ATen.
namespace at::autocast {
TORCH_API bool is_autocast_enabled(at::DeviceType device_type);
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
}  // namespace at::autocast

namespace tile::python {
namespace {

// torch.nn.Module's own methods that find attributes, and the names of attributes that are read.
PyObject *own_getattr = nullptr, *own_getattribute = nullptr;
PyObject *getattr_name = nullptr, *getattribute_name = nullptr, *parameters_name = nullptr;

}  // namespace

Attributes::Attributes(PyObject* module) : module_(module) {
  PyTypeObject* const type = Py_TYPE(module);
  if (!own_getattr || _PyType_Lookup(type, getattr_name) != own_getattr ||
      _PyType_Lookup(type, getattribute_name) != own_getattribute)
    return;
  const Owned dictionary(PyObject_GenericGetDict(module, nullptr));
  if (!dictionary) {
    PyErr_Clear();
    return;
  }
  dictionary_ = dictionary.get();  // the module holds it
  parameters_ = PyDict_GetItemWithError(dictionary_, parameters_name);
  if (parameters_ && !PyDict_Check(parameters_)) parameters_ = nullptr;
}

Owned Attributes::operator[](PyObject* name) const {
  if (dictionary_ && !_PyType_Lookup(Py_TYPE(module_), name)) {
    PyObject* found = PyDict_GetItemWithError(dictionary_, name);
    if (!found && parameters_) found = PyDict_GetItemWithError(parameters_, name);
    if (found) return Owned(Py_NewRef(found));
  }
  return Owned(PyObject_GetAttr(module_, name));
}

bool is_autocast_enabled(at::DeviceType device) { return at::autocast::is_autocast_enabled(device); }
at::ScalarType autocast_dtype(at::DeviceType device) { return at::autocast::get_autocast_dtype(device); }

void Taken::add(const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  const at::Device device = tensor.device();
  if (device_ && *device_ != device) plain_ = false;
  device_ = device;
  if (tensor.layout() != at::kStrided || (!device.is_cpu() && !device.is_cuda())) plain_ = false;
  const at::ScalarType dtype = tensor.scalar_type();
  if (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kHalf && dtype != at::kDouble) {
    plain_ &= !at::isFloatingType(dtype);
    return;
  }
  same_ &= !dtype_ || *dtype_ == dtype;
  dtype_ = dtype;
}
Taken::operator bool() const {
  return plain_ && dtype_ && (same_ || (!exact_ && is_autocast_enabled(device_->type())));
}

namespace {

struct ModuleCall {
  PyObject_HEAD vectorcallfunc call;
  std::string* name;
  // For each argument of the operator, the module's attribute that is passed; null: the caller gives the
  // argument, or it keeps its default.
  std::vector<Owned>* attributes;
  bool integers;  // tensors of integers are taken, too
  bool exact;     // no tensor's dtype is left to autocast
  CurrentPlan* plan;
};

// Appends the arguments. Returns false if Python has to make this call, with an error set if there is one.
bool push_arguments(const ModuleCall& self, const Plan& plan, PyObject* const* given, size_t count,
                    BoxedValues& stack) {
  if (plan.parameters.size() < self.attributes->size()) return false;
  const Attributes attributes(given[0]);
  size_t next = 1;
  Taken taken(self.exact);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const Plan::Parameter& parameter = plan.parameters[i];
    PyObject* const name = i < self.attributes->size() ? (*self.attributes)[i].get() : nullptr;
    if (!name && (i >= self.attributes->size() || next == count)) {
      if (!parameter.standard) return false;
      stack.push_back(*parameter.standard);
      continue;
    }
    const Owned value(name ? attributes[name].release() : Py_NewRef(given[next++]));
    if (!value || !push(parameter, value.get(), stack)) return false;
    if (!stack.back().isTensor()) continue;
    const at::Tensor& tensor = stack.back().toTensor();
    if (!self.integers && !at::isFloatingType(tensor.scalar_type())) return false;
    taken.add(tensor);
  }
  return next == count && taken;
}

PyObject* call_module(PyObject* object, PyObject* const* given, size_t flags, PyObject* names) {
  auto& self = *reinterpret_cast<ModuleCall*>(object);
  const auto count = static_cast<size_t>(PyVectorcall_NARGS(flags));
  HANDLE_TH_ERRORS
  if (!count || names) {
    PyErr_SetString(PyExc_TypeError, "ModuleCall takes a module and the arguments that are no attributes");
    return nullptr;
  }
  if (is_seen_by_python()) return left_to_python();
  const Plan* const plan = self.plan->of(*self.name);
  if (!plan) return left_to_python();
  BoxedValues stack;
  stack.reserve(plan->parameters.size() + plan->results);
  if (!push_arguments(self, *plan, given, count, stack)) return PyErr_Occurred() ? nullptr : left_to_python();
  return or_left_to_python([&] { return call_dispatcher(*plan, stack); });
  END_HANDLE_TH_ERRORS
}

PyTypeObject* module_call_type = nullptr;

// module_call(operator's name, its arguments, integers, exact): the arguments are names of attributes, or
// None.
PyObject* make_module_call(PyObject*, PyObject* arguments) {
  const char* name;
  PyObject* attributes;
  int integers, exact;
  if (!PyArg_ParseTuple(arguments, "sO!pp", &name, &PyTuple_Type, &attributes, &integers, &exact))
    return nullptr;
  auto names = std::make_unique<std::vector<Owned>>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(attributes); ++i) {
    PyObject* each = PyTuple_GET_ITEM(attributes, i);
    if (each != Py_None && !PyUnicode_CheckExact(each)) {
      PyErr_SetString(PyExc_TypeError, "module_call: an argument is the name of an attribute or None");
      return nullptr;
    }
    if (each == Py_None) {
      names->emplace_back();
      continue;
    }
    Py_INCREF(each);
    PyUnicode_InternInPlace(&each);
    names->emplace_back(each);
  }
  auto* made = PyObject_New(ModuleCall, module_call_type);
  if (!made) return nullptr;
  made->call = call_module;
  made->name = new std::string(name);
  made->attributes = names.release();
  made->integers = integers;
  made->exact = exact;
  made->plan = new CurrentPlan();
  return reinterpret_cast<PyObject*>(made);
}
void free_module_call(PyObject* object) {
  auto& self = *reinterpret_cast<ModuleCall*>(object);
  delete self.plan;
  delete self.attributes;
  delete self.name;
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

// read_modules_of(torch.nn.Module): attributes of its subclasses are found without its __getattr__.
PyObject* read_modules_of(PyObject*, PyObject* type) {
  if (!PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "read_modules_of takes a class");
    return nullptr;
  }
  Py_XSETREF(own_getattr, Py_XNewRef(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), getattr_name)));
  Py_XSETREF(own_getattribute,
             Py_XNewRef(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), getattribute_name)));
  Py_RETURN_NONE;
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ModuleCall, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_module_call)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_members, members},
                       {0, nullptr}};
PyType_Spec spec = {"tile_ops._C.ModuleCall", sizeof(ModuleCall), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

PyMethodDef methods[] = {
    {"module_call", guarded<make_module_call>, METH_VARARGS,
     "module_call(name, arguments, integers, exact): an object whose call with a module passes attributes of "
     "the module to the operator. It returns NotImplemented where Python has to make the call."},
    {"read_modules_of", guarded<read_modules_of>, METH_O,
     "read_modules_of(class): finds parameters of its subclasses' objects without its __getattr__."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_module_call(PyObject* module) {
  module_call_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  getattr_name = PyUnicode_InternFromString("__getattr__");
  getattribute_name = PyUnicode_InternFromString("__getattribute__");
  parameters_name = PyUnicode_InternFromString("_parameters");
  if (!module_call_type || !getattr_name || !getattribute_name || !parameters_name ||
      PyModule_AddObjectRef(module, "ModuleCall", reinterpret_cast<PyObject*>(module_call_type)) < 0)
    return -1;
  return PyModule_AddFunctions(module, methods);
}

}  // namespace tile::python
