// The gradients of an operator in Python, from the recorded launches of its run.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty_like.h>

#include "python/derived_kernel.h"
#include "python/raising.h"
#include "torch/launch_replay.h"

namespace tile::python {
namespace {

// Returns the tensors of a list or tuple; undefined for other objects.
std::vector<at::Tensor> tensors_in(PyObject* sequence) {
  std::vector<at::Tensor> tensors;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    const at::Tensor* tensor = tensor_in(PySequence_Fast_GET_ITEM(sequence, i));
    tensors.push_back(tensor ? *tensor : at::Tensor());
  }
  return tensors;
}

std::vector<at::Tensor> tensors_of(const Call& call) {
  const ArgumentRefs passed = call.arguments();
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < passed.size(); ++i)
    tensors.push_back(passed[i].array ? call.tensor(i) : at::Tensor());
  return tensors;
}
// Launches a kernel again as Python has launched it. The arguments are borrowed.
void launch_again(PyObject* kernel, PyObject* grid, PyObject* arguments) {
  const GilHeld held;
  const Owned launched(PyObject_GetItem(kernel, grid));
  const Owned done(launched ? PyObject_CallObject(launched.get(), arguments) : nullptr);
  if (!done) throw PythonFailure();
}

// row: (kernel, (x, y, z), arguments), as record_launches() makes them.
ReplayedLaunch launch_in(PyObject* row, PyObject* traced) {
  PyObject *kernel, *grid, *given;
  ReplayedLaunch launch;
  long long x, y, z;
  if (!PyArg_ParseTuple(row, "OO!O!", &kernel, &PyTuple_Type, &grid, &PyTuple_Type, &given) ||
      !PyArg_ParseTuple(grid, "LLL", &x, &y, &z))
    throw PythonFailure();
  launch.grid = {x, y, z};
  launch.name = kernel_of(kernel).name();
  const Call call(kernel, PySequence_Fast_ITEMS(given), static_cast<size_t>(PyTuple_GET_SIZE(given)), false);
  launch.kernel = traced_kernel(kernel, given, call.key(), traced);
  launch.tensors = tensors_of(call);
  launch.arguments = arguments_of(call);
  launch.run = [kernel, grid, given] { launch_again(kernel, grid, given); };
  return launch;
}

// replay_gradients(name, launches, traced, arguments, results, incoming, targets, saved, way, kernels).
PyObject* replay(PyObject*, PyObject* arguments) {
  const char* name;
  PyObject *launches, *traced, *given, *results, *incoming, *targets, *saved, *way, *kernels;
  if (!PyArg_ParseTuple(arguments, "sO!OO!O!O!O!OOO", &name, &PyList_Type, &launches, &traced, &PyTuple_Type,
                        &given, &PyTuple_Type, &results, &PyTuple_Type, &incoming, &PyTuple_Type, &targets,
                        &saved, &way, &kernels))
    return nullptr;
  return raising([&] {
    Replay replay;
    replay.name = name;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(launches); ++i)
      replay.launches.push_back(launch_in(PyList_GET_ITEM(launches, i), traced));
    replay.arguments = tensors_in(given);
    replay.results = tensors_in(results);
    replay.incoming = tensors_in(incoming);
    replay.targets = tensors_in(targets);
    if (const at::Tensor* bytes = tensor_in(saved)) replay.saved = *bytes;
    replay.way = way_in(way);
    std::vector<std::shared_ptr<ReverseKernel>> launched;
    {
      const Released released(true);
      const at::AutoDispatchBelowADInplaceOrView below;
      launched = replay_gradients(replay);
    }
    for (auto& each : launched) {
      if (kernels == Py_None) break;
      const Owned made(reverse_object(std::move(each)));
      if (!made || PyList_Append(kernels, made.get()) < 0) throw PythonFailure();
    }
    return Py_NewRef(Py_None);
  });
}

// empty_gradients(values, places, mask).
PyObject* empty_gradients(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return raising([&]() -> PyObject* {
    if (count != 3 || !PyTuple_CheckExact(given[0]) || !PyTuple_CheckExact(given[1]))
      fail(ErrorKind::type, "empty_gradients: takes two tuples and a mask");
    const Owned mask(PySequence_Fast(given[2], "the mask is no list"));
    Owned made(PyTuple_New(PyTuple_GET_SIZE(given[1])));
    if (!mask || !made) throw PythonFailure();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given[1]); ++i) {
      const Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(given[1], i));
      if (at < 0 || at >= PyTuple_GET_SIZE(given[0]) || i >= PySequence_Fast_GET_SIZE(mask.get()))
        fail(ErrorKind::value, "empty_gradients: there is no value ", at);
      const at::Tensor* like = tensor_in(PyTuple_GET_ITEM(given[0], at));
      const bool wanted =
          like && like->is_floating_point() && PySequence_Fast_GET_ITEM(mask.get(), i) == Py_True;
      PyObject* value = wanted ? python_value(c10::IValue(at::empty_like(*like))) : Py_NewRef(Py_None);
      if (!value) throw PythonFailure();
      PyTuple_SET_ITEM(made.get(), i, value);
    }
    return made.release();
  });
}

// own_memory(values): the values, a tuple.
PyObject* own_memory(PyObject*, PyObject* values) {
  return raising([&]() -> PyObject* {
    if (!PyTuple_CheckExact(values)) fail(ErrorKind::type, "own_memory: takes a tuple");
    const std::vector<at::Tensor> given = tensors_in(values);
    const std::vector<at::Tensor> own = with_own_memory(given);
    if (std::equal(own.begin(), own.end(), given.begin(),
                   [](const at::Tensor& x, const at::Tensor& y) { return x.is_same(y); }))
      return Py_NewRef(values);
    Owned made(PyTuple_New(PyTuple_GET_SIZE(values)));
    for (size_t i = 0; made && i < own.size(); ++i) {
      const auto at = static_cast<Py_ssize_t>(i);
      PyObject* const value = own[i].is_same(given[i]) ? Py_NewRef(PyTuple_GET_ITEM(values, at))
                                                       : python_value(c10::IValue(own[i]));
      if (!value) throw PythonFailure();
      PyTuple_SET_ITEM(made.get(), at, value);
    }
    return made.release();
  });
}

PyMethodDef functions[] = {
    {"replay_gradients", replay, METH_VARARGS,
     "replay_gradients(name, launches, traced, arguments, results, incoming, targets, saved, way, kernels): "
     "fills the targets, for each argument a tensor or None, with gradients. launches: a list of "
     "record_launches(). traced: returns the Traced of a launch that is not cached. saved: the memory that "
     "the forward filled, or None. way: None, or in tests that of ReverseKernel.launch. kernels: None, or a "
     "list to which the kernels that are differentiated are appended."},
    {"empty_gradients", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(empty_gradients)),
     METH_FASTCALL,
     "empty_gradients(values, places, mask): for each place among the values a tensor like it, if it is one "
     "of floats and its entry of the mask is True, otherwise None."},
    {"own_memory", own_memory, METH_O,
     "own_memory(values): the tuple, in which copies replace tensors that share memory with others or "
     "themselves."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_derived_replay(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace tile::python
