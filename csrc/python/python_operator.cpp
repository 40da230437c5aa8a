// Operators whose parts are Python functions: bindings of the builder in torch/op.h.
#include "python/module.h"

#include "python/raising.h"
#include "support/location.h"
#include "torch/op.h"
#include "torch/traced_tensor.h"

namespace tile::python {

namespace {

struct OperatorObject {
  PyObject_HEAD Operator* op;
};

// One part of an operator: the values that its function takes, and the results that it returns.
struct Part {
  std::string op, what;
  std::shared_ptr<PyObject> function;
  std::vector<size_t> wanted;
  std::string letters;  // one for each value: d for a dtype, o for others
  std::string results;  // one for each result: t for a tensor, l for a list of tensors
  std::vector<std::string> names;

  void operator()(c10::IValue* values, BoxedValues& stack) const {
    const GilHeld held;
    const Owned arguments(PyTuple_New(static_cast<Py_ssize_t>(wanted.size())));
    if (!arguments) throw_raised();
    for (size_t i = 0; i < wanted.size(); ++i) {
      PyObject* value = to_python(values[wanted[i]], letters[i]);
      if (!value) throw_raised();
      PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), value);
    }
    const Owned given(PyObject_CallObject(function.get(), arguments.get()));
    if (!given) throw_raised();
    push(given.get(), stack);
  }

 private:
  static PyObject* to_python(const c10::IValue& value, char letter) {
    return letter == 'd' && value.isInt() ? python_dtype(value.toInt()) : python_value(value);
  }
  [[noreturn]] void fail_result(size_t k, PyObject* value, const char* fix) const {
    fail(ErrorKind::type, op, ": ", what, " gave ", k < names.size() ? "'" + names[k] + "' as " : "", "a ",
         Py_TYPE(value)->tp_name, "; give ", fix);
  }
  at::Tensor tensor(size_t k, PyObject* value) const {
    if (value == Py_None) return {};
    const at::Tensor* given = tensor_in(value);
    if (!given) fail_result(k, value, "a tensor, or None for a missing one");
    return *given;
  }
  void push_one(size_t k, PyObject* value, BoxedValues& stack) const {
    if (results[k] == 't') return stack.push_back(tensor(k, value));
    if (!PyList_Check(value) && !PyTuple_Check(value)) fail_result(k, value, "a list of tensors");
    std::vector<at::Tensor> list;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      list.push_back(tensor(k, PySequence_Fast_GET_ITEM(value, i)));
    stack.emplace_back(std::move(list));
  }
  void push(PyObject* given, BoxedValues& stack) const {
    if (results.size() == 1) return push_one(0, given, stack);
    if (results.empty()) {
      if (given != Py_None)
        fail(ErrorKind::type, op, ": ", what, " returns a ", Py_TYPE(given)->tp_name,
             ", but it fills the results that it is given; return nothing");
      return;
    }
    const bool list = PyList_Check(given) || PyTuple_Check(given);
    const size_t count = list ? static_cast<size_t>(PySequence_Fast_GET_SIZE(given)) : 1;
    if (!list || count != results.size())
      fail(ErrorKind::type, op, ": ", what, " gave ", count, count == 1 ? " value" : " values",
           ", but its results are ", join(names), "; return a tuple of them");
    for (size_t k = 0; k < count; ++k)
      push_one(k, PySequence_Fast_GET_ITEM(given, static_cast<Py_ssize_t>(k)), stack);
  }
};

Operator& operator_of(PyObject* self) { return *reinterpret_cast<OperatorObject*>(self)->op; }

std::vector<std::string> texts_of(PyObject* list) {
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); ++i) {
    const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(list, i));
    if (!text) throw_raised();
    texts.emplace_back(text);
  }
  return texts;
}

BoxedFunction part(PyObject* self, const char* what, PyObject* arguments) {
  PyObject *function, *wanted, *names;
  const char *letters, *results;
  if (!PyArg_ParseTuple(arguments, "OO!ssO!", &function, &PyTuple_Type, &wanted, &letters, &results,
                        &PyTuple_Type, &names))
    throw_raised();
  Part made{operator_of(self).name(), what, {}, {}, letters, results, texts_of(names)};
  made.function = kept(function);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted); ++i)
    made.wanted.push_back(PyLong_AsSize_t(PyTuple_GET_ITEM(wanted, i)));
  return {std::move(made)};
}

PyObject* outputs(PyObject* self, PyObject* arguments) {
  operator_of(self).set_outputs(part(self, "outputs", arguments));
  Py_RETURN_NONE;
}
PyObject* saved_outputs(PyObject* self, PyObject* arguments) {
  operator_of(self).set_saved_outputs(part(self, "saved_outputs", arguments));
  Py_RETURN_NONE;
}
PyObject* run(PyObject* self, PyObject* arguments) {
  operator_of(self).set_run(part(self, "run", arguments));
  Py_RETURN_NONE;
}
PyObject* saves(PyObject* self, PyObject* arguments) {
  const char* results;
  int chosen = 0;
  if (!PyArg_ParseTuple(arguments, "s|p", &results, &chosen)) return nullptr;
  chosen ? operator_of(self).chosen_saves(results) : operator_of(self).saves(results);
  Py_RETURN_NONE;
}
PyObject* grad(PyObject* self, PyObject* arguments) {
  const char* name;
  if (!PyArg_ParseTuple(arguments, "s", &name)) return nullptr;
  operator_of(self).grad(name);
  Py_RETURN_NONE;
}
PyObject* autocast(PyObject* self, PyObject* arguments) {
  const char *cpu, *cuda;
  if (!PyArg_ParseTuple(arguments, "ss", &cpu, &cuda)) return nullptr;
  operator_of(self).autocast(cpu, cuda);
  Py_RETURN_NONE;
}
template <Operator& (Operator::*rule)(std::vector<std::string>, std::vector<std::string>)>
PyObject* vmap(PyObject* self, PyObject* arguments) {
  PyObject *names, *sums;
  if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &names, &PyTuple_Type, &sums)) return nullptr;
  (operator_of(self).*rule)(texts_of(names), texts_of(sums));
  Py_RETURN_NONE;
}
PyObject* check(PyObject* self, PyObject* complete) {
  operator_of(self).check(PyObject_IsTrue(complete) == 1);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"outputs", method<outputs>, METH_VARARGS,
     "outputs(function, wanted, letters, results, names): the numbers of the values it takes, with a letter "
     "each, and a letter and a name for each result."},
    {"saved_outputs", method<saved_outputs>, METH_VARARGS, "saved_outputs(…): as outputs."},
    {"run", method<run>, METH_VARARGS, "run(…): as outputs; it has no results."},
    {"saves", method<saves>, METH_VARARGS,
     "saves(results, chosen=False): a schema's list of them. chosen: by the compiler, for the sizes of a "
     "call."},
    {"grad", method<grad>, METH_VARARGS, "grad(name): of the operator that computes the gradient."},
    {"autocast", method<autocast>, METH_VARARGS, "autocast(cpu, cuda): keep, lower or fp32."},
    {"leading", method<vmap<&Operator::leading>>, METH_VARARGS, "leading(arguments, sums): a rule of vmap."},
    {"fold", method<vmap<&Operator::fold>>, METH_VARARGS, "fold(arguments, sums): a rule of vmap."},
    {"check", method<check>, METH_O,
     "check(complete): raises what is wrong with the definition, and if it is complete what it lacks."},
    {nullptr, nullptr, 0, nullptr},
};
void free_operator(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<OperatorObject*>(self)->op;
  type->tp_free(self);
  Py_DECREF(type);
}
PyTypeObject* operator_type = nullptr;
PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(free_operator)}, {Py_tp_methods, methods}, {0, nullptr}};
PyType_Spec spec = {"tile_ops._C.Operator", sizeof(OperatorObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

// define_operator(schema, replace, file, line): returns a _C.Operator.
PyObject* define_operator(PyObject*, PyObject* arguments) {
  const char *schema, *file;
  int replace;
  unsigned line;
  if (!PyArg_ParseTuple(arguments, "spsI", &schema, &replace, &file, &line)) return nullptr;
  const Location where{intern(file), line, 0};
  return operator_object(replace ? redefine(schema, where) : op(schema, where));
}

PyMethodDef functions[] = {
    {"define_operator", method<define_operator>, METH_VARARGS,
     "define_operator(schema, replace, file, line): an operator without parts yet."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* operator_object(Operator defined) {
  auto* made = reinterpret_cast<OperatorObject*>(operator_type->tp_alloc(operator_type, 0));
  if (!made) return nullptr;
  made->op = new Operator(std::move(defined));
  return reinterpret_cast<PyObject*>(made);
}

// FakeTensors and FunctionalTensors stand for tensors; other classes, as DTensor, take calls apart.
static bool is_of_a_trace(const at::Tensor& tensor) {
  const GilHeld held;
  const Owned object(python_value(c10::IValue(tensor)));
  const std::string_view name = object ? Py_TYPE(object.get())->tp_name : "";
  return name == "FakeTensor" || name == "FunctionalTensor";
}

int add_python_operator(PyObject* module) {
  set_traced_tensor(is_of_a_trace);
  operator_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return operator_type ? PyModule_AddFunctions(module, functions) : -1;
}

}  // namespace tile::python
