// Describes the CUDA driver, its devices and NVRTC's architectures for the doctor.
#include "cuda/program.h"
#include "driver/driver.h"
#include "python/module.h"
#include "runtime/cubin_compiler.h"

namespace tile::python {
namespace {

// Returns {"version": "13.0", "devices": [{…}]}.
PyObject* driver(PyObject*, PyObject*) {
  const Driver& driver = Driver::get();
  Owned devices(PyList_New(0));
  for (int i = 0; i < driver.device_count(); ++i) {
    const DeviceProperties& p = driver.properties(i);
    const Owned row(Py_BuildValue("{s:s,s:i,s:i,s:i}", "name", p.name.c_str(), "arch", p.arch,
                                  "multiprocessors", p.multiprocessors, "shared_bytes", p.shared_bytes));
    if (!devices || !row || PyList_Append(devices.get(), row.get()) < 0) return nullptr;
  }
  const std::string version = str(driver.version() / 1000, ".", driver.version() % 1000 / 10);
  return Py_BuildValue("{s:s,s:N}", "version", version.c_str(), "devices", devices.release());
}

PyObject* nvrtc_archs(PyObject*, PyObject*) {
  Owned list(PyList_New(0));
  for (const int arch : CubinCompiler::get().nvrtc().archs()) {
    const Owned number(PyLong_FromLong(arch));
    if (!list || !number || PyList_Append(list.get(), number.get()) < 0) return nullptr;
  }
  return list.release();
}

// Releases the interpreter while it waits.
PyObject* synchronize(PyObject*, PyObject* number) {
  const long device = PyLong_AsLong(number);
  if (PyErr_Occurred()) return nullptr;
  struct Unlocked {
    PyThreadState* const state = PyEval_SaveThread();
    ~Unlocked() { PyEval_RestoreThread(state); }
  };
  {
    const Unlocked unlocked;
    Driver::get().synchronize(static_cast<int>(device));
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"driver", guarded<driver>, METH_NOARGS, "The CUDA driver's version and devices; opens it."},
    {"synchronize", guarded<synchronize>, METH_O,
     "synchronize(device): waits for the CUDA device of that number; raises what went wrong there, failed "
     "assertions of kernels too."},
    {"nvrtc_archs", guarded<nvrtc_archs>, METH_NOARGS,
     "The compute capabilities that NVRTC compiles for, 90 for 9.0; loads it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_devices(PyObject* module) {
  if (PyModule_AddIntConstant(module, "oldest_arch", cuda::oldest_arch) < 0) return -1;
  return PyModule_AddFunctions(module, methods);
}

}  // namespace tile::python
