// Compiles the launches of a Python call for inspection.
#include "runtime/inspection.h"

#include "python/raising.h"

namespace tile::python {

void set_error(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  // Torch's exceptions have their own Python classes, and an exception raised by Python is passed through.
  if (!ours) return torch::translate_exception_to_python(std::current_exception());
  PyObject* const types[] = {PyExc_ValueError, PyExc_TypeError, PyExc_NotImplementedError,
                             PyExc_RuntimeError};
  PyErr_SetString(types[static_cast<size_t>(ours->kind())], error.what());
}

namespace {

Owned list_of(const std::vector<cuda::Conversion>& conversions) {
  Owned list(PyList_New(0));
  for (const cuda::Conversion& each : conversions) {
    const Owned row(Py_BuildValue("{s:s,s:s,s:s,s:s,s:s,s:N,s:s,s:L,s:s}", "op", each.op.c_str(), "where",
                                  each.where.c_str(), "type", each.type.c_str(), "from", each.from.c_str(),
                                  "to", each.to.c_str(), "in_loop", PyBool_FromLong(each.in_loop), "way",
                                  std::string(name_of(each.way)).c_str(), "shared_bytes",
                                  static_cast<long long>(each.shared_bytes), "reason", each.reason.c_str()));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) return Owned(nullptr);
  }
  return list;
}

}  // namespace

PyObject* row_of(const InspectedKernel& kernel) {
  const KernelResources& r = kernel.resources;
  return Py_BuildValue(
      "{s:s,s:(LLL),s:s#,s:y#,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:N,s:s,s:s,s:s,s:s,s:s,s:O}", "kernel",
      kernel.name.c_str(), "grid", static_cast<long long>(kernel.grid.x),
      static_cast<long long>(kernel.grid.y), static_cast<long long>(kernel.grid.z), "text",
      kernel.text.data(), static_cast<Py_ssize_t>(kernel.text.size()), "cubin", kernel.cubin.data(),
      static_cast<Py_ssize_t>(kernel.cubin.size()), "arch", kernel.arch, "threads", kernel.threads, "cluster",
      kernel.cluster, "registers", r.registers, "spill_stores", r.spill_stores, "spill_loads", r.spill_loads,
      "stack_bytes", r.stack_bytes, "shared_bytes", kernel.shared_bytes + r.shared_bytes, "conversions",
      list_of(kernel.conversions).release(), "warning", kernel.warning.c_str(), "configuration",
      kernel.configuration.c_str(), "entry", kernel.entry.c_str(), "path", kernel.path.c_str(), "why",
      kernel.why.c_str(), "acceptable", kernel.acceptable ? Py_True : Py_False);
}

namespace {

Inspection::What what_of(const std::string& name) {
  if (name == "ir") return Inspection::What::ir;
  if (name == "usual") return Inspection::What::usual;
  if (name == "configurations") return Inspection::What::configurations;
  if (name == "record") return Inspection::What::record;
  if (name == "cuda") return Inspection::What::cuda;
  if (name == "ptx") return Inspection::What::ptx;
  return Inspection::What::code;
}

// inspect(what, arch, shared_bytes, call): returns a dictionary for each launch of call(). shared_bytes 0
// means the limit of the arch.
PyObject* inspect(PyObject*, PyObject* arguments) {
  const char* what;
  int arch, shared_bytes;
  PyObject* call;
  if (!PyArg_ParseTuple(arguments, "siiO", &what, &arch, &shared_bytes, &call)) return nullptr;
  cuda::Target target = target_of_arch(arch);
  if (shared_bytes) target.shared_bytes = shared_bytes;
  Inspection inspection(what_of(what), target, CubinCompiler::get());
  if (!Owned(PyObject_CallNoArgs(call))) return nullptr;
  Owned list(PyList_New(0));
  for (const InspectedKernel& kernel : inspection.kernels()) {
    const Owned row(row_of(kernel));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}

// compile_text(text, kernel, entry, arch, path): compiles a row of "usual" or "configurations".
PyObject* compile_text(PyObject*, PyObject* arguments) {
  const char *text, *kernel, *entry, *path;
  int arch;
  if (!PyArg_ParseTuple(arguments, "sssis", &text, &kernel, &entry, &arch, &path)) return nullptr;
  InspectedKernel row{.name = kernel, .text = text, .entry = entry, .path = path, .arch = arch};
  {
    const Released released(true);
    tile::compile_text(row, CubinCompiler::get());
  }
  return row_of(row);
}

// Leaves launches out, so that what remains of a call is the host's part. Tensors on meta stand for a GPU's.
class NoLaunches final : public LaunchObserver {
 public:
  const cuda::Target* target() const override { return &target_; }
  bool observe(const KernelName&, const Grid&, ArgumentRefs, const std::function<Function()>&) override {
    return true;
  }

 private:
  cuda::Target target_ = target_of_arch(90);
};

// without_launches(call): returns call(), whose launches in this thread are left out.
PyObject* without_launches(PyObject*, PyObject* call) {
  const NoLaunches none;
  return PyObject_CallNoArgs(call);
}

PyMethodDef methods[] = {
    {"without_launches", guarded<without_launches>, METH_O,
     "without_launches(call): call(), of whose kernels none runs, to measure the host's part."},
    {"inspect", guarded<inspect>, METH_VARARGS,
     "inspect(what, arch, shared_bytes, call): what each launch of call() compiles to."},
    {"compile_text", guarded<compile_text>, METH_VARARGS,
     "compile_text(text, kernel, entry, arch, path): what a text of inspect's \"usual\" or "
     "\"configurations\" takes."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_inspection(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace tile::python
