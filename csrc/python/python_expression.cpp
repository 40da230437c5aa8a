// Elementwise operators and reductions whose expressions are Python functions, translated when they are
// traced.
#include "python/capture.h"
#include "python/ir_builder.h"
#include "python/raising.h"

#include "dsl/tracer.h"
#include "expr/elementwise.h"
#include "expr/reduction.h"

namespace tile::python {
namespace {

// Calls the translator's function with a builder and the arguments, tiles as (number, dtype, shape) and
// constants as [value]. It returns the numbers of its results.
std::vector<Tile> translate(PyObject* function, const std::vector<ExpressionArgument>& arguments) {
  const GilHeld held;
  Tracer& tracer = Tracer::current({});
  BuiltFunction built(tracer.function(), tracer.block());
  const Owned given(PyTuple_New(static_cast<Py_ssize_t>(arguments.size())));
  if (!built.object() || !given) throw_raised();
  for (size_t i = 0; i < arguments.size(); ++i) {
    PyObject* item;
    if (arguments[i].tile) {
      Value* value = arguments[i].tile->value();
      const Owned shape(PyTuple_New(value->type.rank()));
      for (int axis = 0; shape && axis < value->type.rank(); ++axis)
        PyTuple_SET_ITEM(shape.get(), axis,
                         PyLong_FromLongLong(value->type.shape[static_cast<size_t>(axis)]));
      const std::string dtype(info(value->type.dtype).name);
      item =
          Py_BuildValue("(nsO)", static_cast<Py_ssize_t>(built.number_of(value)), dtype.c_str(), shape.get());
    } else {
      item = Py_BuildValue("[N]", python_value(arguments[i].constant));
    }
    if (!item) throw_raised();
    PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i), item);
  }
  const Owned generation(PyLong_FromUnsignedLongLong(last_generation()));
  if (!generation) throw_raised();
  const Owned made(
      PyObject_CallFunctionObjArgs(function, built.object(), given.get(), generation.get(), nullptr));
  if (!made || !PyTuple_Check(made.get())) throw_raised();
  std::vector<Tile> results;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made.get()); ++i)
    results.emplace_back(built.value_of(PyLong_AsSize_t(PyTuple_GET_ITEM(made.get(), i))));
  return results;
}

Expression expression_of(PyObject* function) {
  return [function = kept(function)](const std::vector<ExpressionArgument>& arguments) {
    return translate(function.get(), arguments);
  };
}
std::vector<Tile> call(PyObject* function, const std::vector<Tile>& tiles) {
  std::vector<ExpressionArgument> arguments;
  for (const Tile& tile : tiles) arguments.push_back({tile, {}});
  return translate(function, arguments);
}

// Returns the function that adds the capture's generation to the keys of an operator's kernels.
ExpressionVersion version_of(PyObject* capture) {
  return [capture = kept(capture)] { return generation_anywhere(capture.get()); };
}

// define_elementwise(schema, replace, file, line, function, capture): returns the new _C.Operator.
PyObject* define_elementwise(PyObject*, PyObject* arguments) {
  const char *schema, *file;
  int replace;
  unsigned line;
  PyObject *function, *capture;
  if (!PyArg_ParseTuple(arguments, "spsIOO", &schema, &replace, &file, &line, &function, &capture))
    return nullptr;
  return operator_object(tile::define_elementwise(schema, expression_of(function), {intern(file), line, 0},
                                                  replace, version_of(capture)));
}

// define_reduction(schema, replace, file, line, map, kind, combine, identity, finish, totals, capture):
// returns the new _C.Operator. map, combine and finish may be None. totals is the number of tiles that finish
// takes.
PyObject* define_reduction(PyObject*, PyObject* arguments) {
  const char *schema, *file, *kind;
  int replace;
  unsigned line;
  Py_ssize_t totals;
  PyObject *map, *combine, *identity, *finish, *capture;
  if (!PyArg_ParseTuple(arguments, "spsIOsOO!OnO", &schema, &replace, &file, &line, &map, &kind, &combine,
                        &PyTuple_Type, &identity, &finish, &totals, &capture))
    return nullptr;
  using Kind = Reduction::Kind;
  const std::pair<std::string_view, Kind> kinds[] = {
      {"sum", Kind::sum}, {"prod", Kind::prod}, {"max", Kind::max}, {"min", Kind::min}, {"own", Kind::own}};
  Reduction parts;
  for (const auto& [name, value] : kinds)
    if (name == kind) parts.kind = value;
  if (map != Py_None) parts.map = expression_of(map);
  if (combine != Py_None)
    parts.combine = [function = kept(combine)](std::vector<Tile> a, const std::vector<Tile>& b) {
      a.insert(a.end(), b.begin(), b.end());
      return call(function.get(), a);
    };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(identity); ++i)
    parts.identity.push_back(PyFloat_AsDouble(PyTuple_GET_ITEM(identity, i)));
  if (PyErr_Occurred()) return nullptr;
  parts.totals = static_cast<size_t>(totals);
  parts.version = version_of(capture);
  if (finish != Py_None)
    parts.finish = [function = kept(finish)](std::vector<Tile> all, const Tile& count) {
      all.push_back(count);
      return call(function.get(), all);
    };
  return operator_object(tile::define_reduction(schema, std::move(parts), {intern(file), line, 0}, replace));
}

PyMethodDef functions[] = {
    {"define_elementwise", method<define_elementwise>, METH_VARARGS,
     "define_elementwise(schema, replace, file, line, function, capture): an operator of one expression."},
    {"define_reduction", method<define_reduction>, METH_VARARGS,
     "define_reduction(schema, replace, file, line, map, kind, combine, identity, finish, totals, capture): "
     "an operator that reduces axes."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_python_expression(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace tile::python
