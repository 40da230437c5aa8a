// Calls of operators from Python: plain arguments go straight to the dispatcher; all other calls take torch's
// own path.
#include "python/operator_plan.h"

#include <structmember.h>

#include <atomic>
#include <cstddef>

namespace tile::python {
namespace {

// The object that packets and overloads of torch.ops call. It replaces torch's function and otherwise behaves
// like it.
struct CallObject {
  PyObject_HEAD vectorcallfunc call;
  PyObject* torch;  // torch's function
  std::string* name;
  CurrentPlan* plan;
  uint64_t accepted;  // definitions() when the operator was last known not to be refused
};

// Raises the reason if the definition of this name was refused. Such an operator takes any arguments.
void raise_if_refused(const std::string& name) {
  const auto handle = c10::Dispatcher::singleton().findSchema({name, ""});
  if (!handle || !handle->schema().is_vararg() || !handle->schema().arguments().empty()) return;
  BoxedValues none;
  handle->callBoxed(none);
}

PyObject* call(PyObject* object, PyObject* const* given, size_t flags, PyObject* names) {
  auto& self = *reinterpret_cast<CallObject*>(object);
  HANDLE_TH_ERRORS
  if (!is_seen_by_python())
    if (const Plan* plan = self.plan->of(*self.name)) {
      BoxedValues stack;
      stack.reserve(plan->parameters.size() + plan->results);
      if (push_all(*plan, given, static_cast<size_t>(PyVectorcall_NARGS(flags)), names, stack))
        return call_dispatcher(*plan, stack);
    }
  if (const uint64_t now = definitions(); !self.plan->known() && self.accepted != now) {
    raise_if_refused(*self.name);
    self.accepted = now;
  }
  return PyObject_Vectorcall(self.torch, given, flags, names);
  END_HANDLE_TH_ERRORS
}

PyTypeObject* call_type = nullptr;

// OperatorCall(function, name): the object that replaces torch's function of an operator.
PyObject* make_call(PyObject*, PyObject* arguments) {
  PyObject* function;
  const char* name;
  if (!PyArg_ParseTuple(arguments, "Os", &function, &name)) return nullptr;
  auto* made = PyObject_New(CallObject, call_type);
  if (!made) return nullptr;
  made->call = call;
  made->torch = Py_NewRef(function);
  made->name = new std::string(name);
  made->plan = new CurrentPlan();
  made->accepted = ~uint64_t{0};
  return reinterpret_cast<PyObject*>(made);
}
void free_call(PyObject* object) {
  auto& self = *reinterpret_cast<CallObject*>(object);
  delete self.plan;
  delete self.name;
  Py_DECREF(self.torch);
  PyObject_Free(object);
  Py_DECREF(call_type);
}
PyObject* attribute(PyObject* object, PyObject* name) {
  return PyObject_GetAttr(reinterpret_cast<CallObject*>(object)->torch, name);
}
// Hashes like torch's function, because packets may already be keys of dictionaries.
Py_hash_t hash(PyObject* object) { return PyObject_Hash(reinterpret_cast<CallObject*>(object)->torch); }

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CallObject, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_call)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_getattro, reinterpret_cast<void*>(attribute)},
                       {Py_tp_hash, reinterpret_cast<void*>(hash)},
                       {Py_tp_members, members},
                       {0, nullptr}};
PyType_Spec spec = {"tile_ops._C.OperatorCall", sizeof(CallObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

// Packets of our operators are called here. This call is the only difference between their class and its
// base, torch's class.
PyObject* op_name = nullptr;
PyObject* call_packet(PyObject* packet, PyObject* arguments, PyObject* named) {
  const Owned function(PyObject_GenericGetAttr(packet, op_name));
  if (!function) return nullptr;
  if (Py_TYPE(function.get()) != call_type || (named && PyDict_GET_SIZE(named)))
    return PyObject_Call(function.get(), arguments, named);
  return call(function.get(), &PyTuple_GET_ITEM(arguments, 0),
              static_cast<size_t>(PyTuple_GET_SIZE(arguments)), nullptr);
}
PyType_Slot packet_slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_packet)}, {0, nullptr}};
PyType_Spec packet_spec = {"tile_ops._C.OperatorPacket", 0, 0, Py_TPFLAGS_DEFAULT, packet_slots};
PyObject* packet_class(PyObject*, PyObject* base) { return PyType_FromSpecWithBases(&packet_spec, base); }

// torch.ops.<namespace>: finds an operator that was looked up before in the dictionary, without the method
// call that Python makes for a module with __getattr__.
PyObject* lookup_name = nullptr;
PyObject* attribute_of_namespace(PyObject* operators, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(operators, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_CallMethodOneArg(operators, lookup_name, name);
}
PyType_Slot namespace_slots[] = {{Py_tp_getattro, reinterpret_cast<void*>(attribute_of_namespace)},
                                 {0, nullptr}};
PyType_Spec namespace_spec = {"tile_ops._C.OperatorNamespace", 0, 0, Py_TPFLAGS_DEFAULT, namespace_slots};
PyObject* namespace_class(PyObject*, PyObject* base) {
  return PyType_FromSpecWithBases(&namespace_spec, base);
}

// The function that the interpreter's main thread calls after operators are defined.
PyObject* listener = nullptr;
std::atomic<bool> telling = false;
int tell(void*) {
  telling = false;
  const Owned done(PyObject_CallNoArgs(listener));
  if (!done) PyErr_WriteUnraisable(listener);
  return 0;
}
void defined() {
  if (Py_IsInitialized() && !telling.exchange(true) && Py_AddPendingCall(tell, nullptr)) telling = false;
}
PyObject* on_definition(PyObject*, PyObject* function) {
  Py_XSETREF(listener, Py_NewRef(function));
  set_definition_listener(defined);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"operator_call", guarded<make_call>, METH_VARARGS,
     "operator_call(function, name): calls the operator as torch's function for it does, sooner where the "
     "arguments are plain."},
    {"packet_class", guarded<packet_class>, METH_O,
     "packet_class(base): a class of packets whose calls go to their _op at once."},
    {"namespace_class", guarded<namespace_class>, METH_O,
     "namespace_class(base): a class of namespaces that find a known operator at once."},
    {"on_definition", guarded<on_definition>, METH_O,
     "on_definition(function): calls it when operators have been defined."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_operator_call(PyObject* module) {
  call_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  op_name = PyUnicode_InternFromString("_op");
  lookup_name = PyUnicode_InternFromString("__getattr__");
  if (!call_type || !op_name || !lookup_name ||
      PyModule_AddObjectRef(module, "OperatorCall", reinterpret_cast<PyObject*>(call_type)) < 0)
    return -1;
  return PyModule_AddFunctions(module, methods);
}

}  // namespace tile::python
