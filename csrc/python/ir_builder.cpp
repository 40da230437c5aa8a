// Python names values and blocks by number, so that no Python object outlives the function that is built.
#include "python/ir_builder.h"

#include <utility>

#include "ir/build.h"

namespace tile::python {

struct IrBuilder {
  IrBuilder(Function& of, Block& block) : function(of), build(of, block), entered{&block} {}
  Function& function;
  Builder build;
  std::vector<Value*> values;
  std::vector<std::unique_ptr<Block>> blocks;  // null after an op has taken the block
  std::vector<Block*> entered;
};

namespace {

struct BuilderObject {
  PyObject_HEAD IrBuilder* state;
};
PyTypeObject* builder_type = nullptr;

IrBuilder& state_of(PyObject* self) {
  IrBuilder* state = reinterpret_cast<BuilderObject*>(self)->state;
  if (!state) fail(ErrorKind::runtime, "this kernel is translated already; its values are of no use now");
  return *state;
}

// A Python exception is already set.
struct PythonError : std::exception {};

int64_t integer(PyObject* value) {
  const int64_t number = PyLong_AsLongLong(value);
  if (number == -1 && PyErr_Occurred()) throw PythonError();
  return number;
}
std::string_view text_of(PyObject* value) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value, &size);
  if (!text) throw PythonError();
  return {text, static_cast<size_t>(size)};
}
DType dtype_of(PyObject* value) { return dtype_named(text_of(value)); }
std::vector<int64_t> integers(PyObject* tuple) {
  std::vector<int64_t> numbers;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    numbers.push_back(integer(PyTuple_GET_ITEM(tuple, i)));
  return numbers;
}
Attribute attribute(std::string_view name, PyObject* value) {
  if (name == "dtype") return dtype_of(value);
  if (PyUnicode_Check(value)) return std::string(text_of(value));
  if (PyTuple_Check(value)) return integers(value);
  if (PyFloat_Check(value)) return PyFloat_AS_DOUBLE(value);
  return integer(value);
}

// Returns (number, dtype, shape), or (number, dtype, rank) for an array.
PyObject* described(IrBuilder& state, Value* value) {
  state.values.push_back(value);
  const std::string_view dtype = info(value->type.dtype).name;
  Owned extent;
  if (value->type.is_array()) {
    extent.reset(PyLong_FromLong(value->type.array_rank));
  } else {
    const Shape& shape = value->type.shape;
    extent.reset(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
    for (size_t i = 0; extent && i < shape.size(); ++i)
      PyTuple_SET_ITEM(extent.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
  }
  if (!extent) return nullptr;
  return Py_BuildValue("(ns#N)", static_cast<Py_ssize_t>(state.values.size() - 1), dtype.data(),
                       static_cast<Py_ssize_t>(dtype.size()), extent.release());
}
PyObject* described(IrBuilder& state, const std::vector<Value*>& values) {
  Owned tuple(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; tuple && i < values.size(); ++i) {
    PyObject* each = described(state, values[i]);
    if (!each) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), each);
  }
  return tuple.release();
}

PyObject* at(PyObject* self, PyObject* arguments) {
  const char* file;
  unsigned line, column;
  if (!PyArg_ParseTuple(arguments, "sII", &file, &line, &column)) return nullptr;
  state_of(self).build.location = {intern(file), line, column};
  Py_RETURN_NONE;
}

PyObject* op(PyObject* self, PyObject* arguments) {
  const char* name;
  PyObject *operands, *attributes, *blocks;
  if (!PyArg_ParseTuple(arguments, "sO!O!O!", &name, &PyTuple_Type, &operands, &PyDict_Type, &attributes,
                        &PyTuple_Type, &blocks))
    return nullptr;
  IrBuilder& state = state_of(self);
  auto made = std::make_unique<Op>();
  made->primitive = &primitive(name);
  made->location = state.build.location;
  for (const int64_t number : integers(operands))
    made->operands.push_back(state.values.at(static_cast<size_t>(number)));
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(attributes, &at, &key, &value);) {
    const std::string_view text = text_of(key);
    made->attributes.set(text, attribute(text, value));
  }
  for (const int64_t number : integers(blocks))
    made->regions.push_back(std::move(state.blocks.at(static_cast<size_t>(number))));
  state.build.to_end(*state.entered.back());
  return described(state, state.build.insert(std::move(made)).results);
}

// block(((dtype, shape), …)): makes a region's block and returns it with its arguments.
PyObject* block(PyObject* self, PyObject* types) {
  if (!PyTuple_Check(types)) return PyErr_SetString(PyExc_TypeError, "block: takes a tuple"), nullptr;
  IrBuilder& state = state_of(self);
  auto made = std::make_unique<Block>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i) {
    PyObject *dtype, *shape;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(types, i), "OO!", &dtype, &PyTuple_Type, &shape)) return nullptr;
    state.function.add_argument(*made, Type::tile(dtype_of(dtype), integers(shape)), state.build.location);
  }
  Owned values(described(state, made->arguments));
  if (!values) return nullptr;
  state.blocks.push_back(std::move(made));
  return Py_BuildValue("(nN)", static_cast<Py_ssize_t>(state.blocks.size() - 1), values.release());
}
// Appends the following ops to the block, until leave().
PyObject* enter(PyObject* self, PyObject* number) {
  IrBuilder& state = state_of(self);
  const auto& found = state.blocks.at(static_cast<size_t>(integer(number)));
  TILE_CHECK(found != nullptr);
  state.entered.push_back(found.get());
  Py_RETURN_NONE;
}
PyObject* leave(PyObject* self, PyObject*) {
  IrBuilder& state = state_of(self);
  TILE_CHECK(state.entered.size() > 1);
  state.entered.pop_back();
  Py_RETURN_NONE;
}

template <PyCFunction function>
PyObject* method(PyObject* self, PyObject* argument) {
  try {
    return function(self, argument);
  } catch (const PythonError&) {
  } catch (const std::exception& error) {
    set_error(error);
  }
  return nullptr;
}
PyObject* hint(PyObject* self, PyObject* arguments) {
  const char* name;
  long long value;
  if (!PyArg_ParseTuple(arguments, "sL", &name, &value)) return nullptr;
  state_of(self).function.attributes().set(str("hint.", name), int64_t{value});
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"at", method<at>, METH_VARARGS, "at(file, line, column): the location of the ops that follow."},
    {"op", method<op>, METH_VARARGS,
     "op(primitive, operands, attributes, blocks): its results, each as (number, dtype, shape), of an array "
     "(number, dtype, rank)."},
    {"block", method<block>, METH_O,
     "block(((dtype, shape), ...)): (number, arguments) of a block that an op will take."},
    {"enter", method<enter>, METH_O, "enter(block): ops go to its end, until leave()."},
    {"leave", method<leave>, METH_NOARGS, "leave(): ops go where they went before enter()."},
    {"hint", method<hint>, METH_VARARGS, "hint(name, value): an integer of the function that targets read."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
PyType_Spec spec = {"tile_ops._C.IrBuilder", sizeof(BuilderObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

DType dtype_named(std::string_view name) {
  for (size_t i = 0; i < dtype_table.size(); ++i)
    if (dtype_table[i].name == name) return static_cast<DType>(i);
  fail(ErrorKind::type, "there is no dtype '", name, "'");
}

BuiltFunction::BuiltFunction(Function& function, Block& block)
    : state_(std::make_unique<IrBuilder>(function, block)) {
  object_.reset(builder_type->tp_alloc(builder_type, 0));
  if (object_) reinterpret_cast<BuilderObject*>(object_.get())->state = state_.get();
}
BuiltFunction::~BuiltFunction() {
  if (object_) reinterpret_cast<BuilderObject*>(object_.get())->state = nullptr;
}
Value* BuiltFunction::value_of(size_t number) const { return state_->values.at(number); }
size_t BuiltFunction::number_of(Value* value) {
  state_->values.push_back(value);
  return state_->values.size() - 1;
}

int add_ir_builder(PyObject*) {
  builder_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return builder_type ? 0 : -1;
}

}  // namespace tile::python
