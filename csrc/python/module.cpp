// The Python module _C: build information, the operator registry, and functions for tests and tools.
#include "python/module.h"

#include <torch/version.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cpu/gemm/gemm_table.h"
#include "cpu/interpreter/lowering_context.h"
#include "cpu/jit/fused_loop_code.h"
#include "cpu/vecmath/isa.h"
#include "cuda/lowering_rule.h"
#include "ir/primitive.h"
#include "runtime/cubin_compiler.h"
#include "runtime/kernel.h"
#include "runtime/text_kernel.h"
#include "torch/args.h"
#include "torch/op.h"
#include "torch/refused.h"

namespace tile::python {

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

}  // namespace tile::python

namespace {

using tile::python::guarded;
using tile::python::strings;

template <std::vector<std::string> (*function)()>
PyObject* list_of(PyObject*, PyObject*) {
  return strings(function());
}
int i32_of(PyObject* item) {
  const long number = PyLong_AsLong(item);
  if (number != static_cast<int32_t>(number))
    PyErr_Format(PyExc_OverflowError, "%R is out of range of i32; pass ctypes.c_int64", item);
  return static_cast<int>(number);
}
// Converts a Python list of tensors and scalars: int is i32, float f64, ctypes.c_int64 i64, ctypes.c_float
// f32.
std::vector<tile::Argument> launch_arguments(PyObject* list) {
  std::vector<tile::Argument> launch;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* item = PyList_GET_ITEM(list, i);
    if (const at::Tensor* tensor = tile::python::tensor_in(item))
      launch.emplace_back(to_array_argument(*tensor));
    else if (PyBool_Check(item))
      launch.emplace_back(tile::scalar_argument(item == Py_True));
    else if (PyLong_Check(item))
      launch.emplace_back(tile::scalar_argument(i32_of(item)));
    else if (const tile::python::Owned single(PyObject_GetAttrString(item, "value")); single)  // ctypes
      launch.emplace_back(PyLong_Check(single.get())
                              ? tile::scalar_argument(static_cast<int64_t>(PyLong_AsLongLong(single.get())))
                              : tile::scalar_argument(static_cast<float>(PyFloat_AsDouble(single.get()))));
    else
      PyErr_Clear(), launch.emplace_back(tile::scalar_argument(PyFloat_AsDouble(item)));
  }
  return launch;
}
// run_ir(text, (x, y, z), [arguments…], passes): runs Tile IR text on tensors and scalars.
PyObject* run_ir(PyObject*, PyObject* arguments) {
  const char* text;
  long long x, y, z;
  PyObject* list;
  int passes = 1;
  if (!PyArg_ParseTuple(arguments, "s(LLL)O!|p", &text, &x, &y, &z, &PyList_Type, &list, &passes))
    return nullptr;
  const std::vector<tile::Argument> launch = launch_arguments(list);
  if (PyErr_Occurred()) return nullptr;
  tile::TextKernel(text, passes).launch({x, y, z}, launch);
  Py_RETURN_NONE;
}
// Compiles Tile IR text to the program for a GPU of an arch. CPU tensors represent GPU tensors.
PyObject* cuda_program(PyObject*, PyObject* arguments) {
  const char* text;
  PyObject* list;
  int passes = 1;
  tile::cuda::Target target;
  int wgmma = target.wgmma, panels_in_turn = 0, pairs = static_cast<int>(target.pairs);
  if (!PyArg_ParseTuple(arguments, "sO!i|piiippi", &text, &PyList_Type, &list, &target.arch, &passes,
                        &target.shared_bytes, &target.block_bytes, &target.cluster_blocks, &wgmma,
                        &panels_in_turn, &pairs))
    return nullptr;
  target.wgmma = wgmma != 0, target.pairs = static_cast<tile::cuda::Pairs>(pairs);
  const std::vector<tile::Argument> launch = launch_arguments(list);
  if (PyErr_Occurred()) return nullptr;
  const tile::cuda::Program program =
      tile::TextKernel(text, passes).gpu_program(launch, target, {.panels_in_turn = panels_in_turn != 0});
  return tile::python::program_of(program).release();
}

// Returns the names of a primitive's traits.
std::vector<std::string> trait_names(const tile::Primitive& primitive) {
  const tile::Traits& traits = primitive.traits;
  const std::pair<bool, const char*> all[] = {{traits.elementwise, "elementwise"},
                                              {traits.commutative, "commutative"},
                                              {traits.reads, "reads"},
                                              {traits.writes, "writes"},
                                              {traits.barrier, "barrier"},
                                              {traits.effect, "effect"},
                                              {traits.terminator, "terminator"},
                                              {traits.impure, "impure"},
                                              {primitive.fold != nullptr, "folds"}};
  std::vector<std::string> names;
  for (const auto& [there, name] : all)
    if (there) names.emplace_back(name);
  return names;
}
// Returns the registry: {name: {"doc", "operands", "regions", "dtypes", "elementwise", "traits", "core",
// "reference", "low", "high", "ulp", "cpu", "cuda", "infer"}}. docs/make_language.py makes a page of each
// row.
PyObject* primitives(PyObject*, PyObject*) {
  PyObject* table = PyDict_New();
  for (const tile::Primitive* primitive : tile::all_primitives()) {
    PyObject* dtypes = PyList_New(0);
    for (int i = 0; i < tile::dtype_count; ++i)
      if (primitive->dtypes.has(static_cast<tile::DType>(i))) {
        std::string name(tile::dtype_table[static_cast<size_t>(i)].name);
        PyObject* text = PyUnicode_FromString(name.c_str());
        PyList_Append(dtypes, text);
        Py_DECREF(text);
      }
    std::string name(primitive->name), doc(primitive->doc), reference(primitive->test.reference);
    PyObject* row = Py_BuildValue(
        "{s:s,s:i,s:i,s:N,s:N,s:O,s:O,s:s,s:d,s:d,s:d,s:O,s:O,s:O}", "doc", doc.c_str(), "operands",
        primitive->operands, "regions", primitive->regions, "traits", strings(trait_names(*primitive)),
        "dtypes", dtypes, "elementwise", primitive->traits.elementwise ? Py_True : Py_False, "core",
        primitive->core() ? Py_True : Py_False, "reference", reference.c_str(), "low", primitive->test.low,
        "high", primitive->test.high, "ulp", primitive->test.tolerance, "cpu",
        tile::cpu::has_cpu_body(primitive->name) ? Py_True : Py_False, "cuda",
        tile::cuda::has_cuda_body(primitive->name) ? Py_True : Py_False, "infer",
        primitive->infer ? Py_True : Py_False);
    if (!row || PyDict_SetItemString(table, name.c_str(), row) < 0) {
      Py_XDECREF(row);
      Py_DECREF(table);
      return nullptr;
    }
    Py_DECREF(row);
  }
  return table;
}
PyObject* compiled_kernels(PyObject*, PyObject*) {
  PyObject* table = PyDict_New();
  for (const auto& [name, count] : tile::KernelBase::compiled_counts()) {
    PyObject* number = PyLong_FromSize_t(count);
    const bool failed = !table || !number || PyDict_SetItemString(table, name.c_str(), number) < 0;
    Py_XDECREF(number);
    if (failed) {
      Py_XDECREF(table);
      return nullptr;
    }
  }
  return table;
}
PyObject* isa(PyObject*, PyObject*) {
  const std::string name(tile::cpu::name(tile::cpu::active_isa()));
  return PyUnicode_FromString(name.c_str());
}
PyObject* amx(PyObject*, PyObject*) { return PyBool_FromLong(tile::cpu::uses_amx()); }
PyObject* assemble_fused_loops(PyObject*, PyObject* on) {
  const int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  tile::cpu::jit::enable(wanted != 0);
  Py_RETURN_NONE;
}
template <tile::DiskCache::Info (tile::DiskCache::*function)() const>
PyObject* cache(PyObject*, PyObject*) {
  const tile::DiskCache::Info info = (tile::DiskCache::get().*function)();
  return Py_BuildValue("{s:s,s:s,s:K,s:K,s:K}", "folder", info.folder.c_str(), "unusable",
                       info.unusable.c_str(), "entries", static_cast<unsigned long long>(info.entries),
                       "bytes", static_cast<unsigned long long>(info.bytes), "budget",
                       static_cast<unsigned long long>(info.budget));
}
// The key is the SHA-256 of the data from which an entry was made.
tile::DiskCache::Key cache_key(const char* bytes, Py_ssize_t size) {
  tile::DiskCache::Key key;
  if (static_cast<size_t>(size) != key.size())
    tile::fail(tile::ErrorKind::value, "a key of the cache has ", key.size(), " bytes, not ", size);
  std::copy(bytes, bytes + size, key.begin());
  return key;
}
PyObject* cache_load(PyObject*, PyObject* arguments) {
  const char* key;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(arguments, "y#", &key, &size)) return nullptr;
  const auto bytes = tile::DiskCache::get().load(cache_key(key, size));
  if (!bytes) Py_RETURN_NONE;
  return PyBytes_FromStringAndSize(bytes->data(), static_cast<Py_ssize_t>(bytes->size()));
}
PyObject* cache_store(PyObject*, PyObject* arguments) {
  const char *key, *bytes;
  Py_ssize_t size, count;
  if (!PyArg_ParseTuple(arguments, "y#y#", &key, &size, &bytes, &count)) return nullptr;
  tile::DiskCache::get().store(cache_key(key, size), {bytes, static_cast<size_t>(count)});
  Py_RETURN_NONE;
}
PyObject* nvrtc(PyObject*, PyObject*) {
  const tile::Nvrtc& found = tile::CubinCompiler::get().nvrtc();
  return Py_BuildValue("(ss)", found.path().c_str(), found.version().c_str());
}
PyObject* torch_version(PyObject*, PyObject*) { return PyUnicode_FromString(TORCH_VERSION); }

PyMethodDef methods[] = {
    {"torch_version", guarded<torch_version>, METH_NOARGS, "The version of torch that this was built for."},
    {"isa", guarded<isa>, METH_NOARGS, "The instruction set that kernels run on: baseline, avx2 or avx512."},
    {"amx", guarded<amx>, METH_NOARGS, "Whether products of bfloat16 run on AMX's tile registers."},
    {"operators", guarded<list_of<tile::registered_operators>>, METH_NOARGS,
     "The schemas of the operators defined so far."},
    {"refused_operators", guarded<list_of<tile::refused_operators>>, METH_NOARGS,
     "The names whose definitions were refused; a call of one raises the reason."},
    {"registration_errors", guarded<list_of<tile::registration_errors>>, METH_NOARGS,
     "What is wrong with operators defined so far; empty: all is well."},
    {"run_ir", guarded<run_ir>, METH_VARARGS,
     "run_ir(text, (x, y, z), arguments, passes=True): runs Tile IR text on tensors."},
    {"cuda_program", guarded<cuda_program>, METH_VARARGS,
     "cuda_program(text, arguments, arch, passes=True, shared_bytes=49152, block_bytes=65536, "
     "cluster_blocks=16, wgmma=as TILE_WGMMA says, panels_in_turn=False, pairs=as TILE_PAIRS says): the CUDA "
     "C++ of Tile IR text as "
     "{'text', 'entry', 'threads', 'shared_bytes'}."},
    {"compiled_kernels", guarded<compiled_kernels>, METH_NOARGS,
     "How many kernels were compiled so far, by the name of the Kernel; the same arguments in other sizes "
     "compile none."},
    {"assemble_fused_loops", guarded<assemble_fused_loops>, METH_O,
     "assemble_fused_loops(on): whether fused loops on the CPU run as machine code from now on; false: "
     "interpreted."},
    {"cache_info", guarded<cache<&tile::DiskCache::info>>, METH_NOARGS,
     "The disk cache of compiled GPU kernels and of measured choices."},
    {"cache_clear", guarded<cache<&tile::DiskCache::clear>>, METH_NOARGS, "Empties it; what was removed."},
    {"cache_load", guarded<cache_load>, METH_VARARGS,
     "cache_load(key): the bytes stored under a key of 32 bytes; None: there are none, or they are damaged."},
    {"cache_store", guarded<cache_store>, METH_VARARGS,
     "cache_store(key, bytes): keeps them, where the disk lets it."},
    {"nvrtc", guarded<nvrtc>, METH_NOARGS, "(file, version) of the NVRTC that compiles for GPUs; loads it."},
    {"primitives", guarded<primitives>, METH_NOARGS, "The registry of primitives as a dictionary."},
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

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__C() {
  PyObject* made = PyModule_Create(&module);
  for (const auto& add : {tile::python::add_inspection,
                          tile::python::add_devices,
                          tile::python::add_emulation,
                          tile::python::add_raw_cuda,
                          tile::python::add_operator_call,
                          tile::python::add_ir_builder,
                          tile::python::add_capture,
                          tile::python::add_tile_kernel,
                          tile::python::add_compiled_call,
                          tile::python::add_python_operator,
                          tile::python::add_python_expression,
                          tile::python::add_interrupts,
                          tile::python::add_log_records,
                          tile::python::add_operator_observer,
                          tile::python::add_packs,
                          tile::python::add_derived_kernel,
                          tile::python::add_derived_replay,
                          tile::python::add_saved_bytes,
                          tile::python::add_module_call,
                          tile::python::add_patched_functions})
    if (made && add(made) < 0) Py_CLEAR(made);
  return made;
}
