// The Python module _C: what was built, and which operators are registered. The only file that includes
// Python.h.
#include <Python.h>
#include <torch/version.h>

#include <string>
#include <vector>

#include "torch/op.h"

namespace {

PyObject* strings(const std::vector<std::string>& texts) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(texts.size()));
  for (size_t i = 0; list && i < texts.size(); ++i) {
    PyObject* text = PyUnicode_FromStringAndSize(texts[i].data(), static_cast<Py_ssize_t>(texts[i].size()));
    if (!text) {
      Py_DECREF(list);
      return nullptr;
    }
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), text);
  }
  return list;
}

// No C++ exception may leave a function that Python calls.
template <std::vector<std::string> (*function)()>
PyObject* list_of(PyObject*, PyObject*) {
  try {
    return strings(function());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}
PyObject* torch_version(PyObject*, PyObject*) { return PyUnicode_FromString(TORCH_VERSION); }

PyMethodDef methods[] = {
    {"torch_version", torch_version, METH_NOARGS, "The version of torch that this was built for."},
    {"operators", list_of<tile::registered_operators>, METH_NOARGS,
     "The schemas of the operators defined so far."},
    {"registration_errors", list_of<tile::registration_errors>, METH_NOARGS,
     "What is wrong with operators defined so far; empty: all is well."},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "_C",
                      "The compiled part of tile_ops.",
                      -1,
                      methods,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__C() { return PyModule_Create(&module); }
