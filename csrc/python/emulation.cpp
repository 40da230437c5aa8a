// Hands the launches of a call to Python instead of running them, with memory for the meta tensors that
// represent GPU tensors. Tests run them in an emulator.
#include <ATen/core/Tensor.h>

#include <cstdlib>
#include <cstring>

#include "cuda/async/wgmma_text.h"
#include "cuda/shared_layout.h"
#include "python/ir_builder.h"
#include "runtime/inspection.h"
#include "runtime/tensor_maps.h"

namespace tile::python {
namespace {

// Returns memory for a meta tensor's storage, which owns it from its first use on. It is zero, as if torch
// had filled it.
char* host_memory(c10::StorageImpl& storage) {
  constexpr size_t alignment = 256;
  const size_t bytes = storage.nbytes();
  if (bytes && !storage.mutable_data()) {
    void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!memory) throw std::bad_alloc();
    std::memset(memory, 0, bytes);
    storage.set_data_ptr_noswap(c10::DataPtr(memory, memory, std::free, c10::Device(c10::kMeta)));
  }
  return static_cast<char*>(storage.mutable_data());
}

Owned numbers(const std::array<int64_t, max_array_rank>& values, int count) {
  Owned list(PyList_New(count));
  for (int i = 0; list && i < count; ++i)
    PyList_SET_ITEM(list.get(), i, PyLong_FromLongLong(values[static_cast<size_t>(i)]));
  return list;
}

// Returns (address, bytes per element, sizes, strides), or the bytes of a scalar.
Owned parameter_of(const ArgumentRef& argument) {
  if (argument.scalar) {
    const auto* bits = reinterpret_cast<const char*>(&argument.scalar->bits);
    return Owned(PyBytes_FromStringAndSize(bits, info(argument.scalar->dtype).bytes));
  }
  const ArrayArgument& array = *argument.array;
  return Owned(Py_BuildValue("(KiNN)", reinterpret_cast<unsigned long long>(array.data),
                             info(array.dtype).bytes, numbers(array.sizes, array.rank).release(),
                             numbers(array.strides, array.rank).release()));
}

// The outcome of a launch in Python: success, or an error message.
struct Outcome {
  std::string text;
  bool own = false;  // true for an error of the kernel itself, as a GPU would report it
};

class Emulation final : public LaunchObserver {
 public:
  Emulation(cuda::Target target, PyObject* launch, size_t configuration)
      : target_(target), configuration_(cuda::configurations[configuration]), launch_(launch) {}
  const cuda::Target* target() const override { return &target_; }
  char* memory(void* storage) override { return host_memory(*static_cast<c10::StorageImpl*>(storage)); }
  bool observe(const KernelName& name, const Grid& grid, ArgumentRefs arguments,
               const std::function<Function()>& compiled) override {
    if (grid.x && grid.y && grid.z) {
      const cuda::Program program(compiled(), target_, configuration_);
      const PyGILState_STATE lock = PyGILState_Ensure();
      const Outcome outcome = run(program, grid, arguments);
      PyGILState_Release(lock);
      if (outcome.own) fail(ErrorKind::runtime, outcome.text);
      if (!outcome.text.empty()) fail(name.where, ErrorKind::runtime, outcome.text);
    }
    return true;
  }

 private:
  Outcome run(const cuda::Program& program, const Grid& grid, ArgumentRefs arguments) const {
    const Owned list(PyList_New(0)), row = program_of(program);
    for (const ArgumentRef& argument : arguments)
      if (PyList_Append(list.get(), parameter_of(argument).get()) < 0) return {"out of memory"};
    const Owned result(PyObject_CallFunction(launch_, "O(LLL)O", row.get(), static_cast<long long>(grid.x),
                                             static_cast<long long>(grid.y), static_cast<long long>(grid.z),
                                             list.get()));
    if (result && result.get() == Py_None) return {};
    const bool own = result && PyTuple_Check(result.get()) && PyTuple_GET_SIZE(result.get()) == 1;
    PyObject* const words = own ? PyTuple_GET_ITEM(result.get(), 0) : result.get();
    const char* text = words ? PyUnicode_AsUTF8(words) : nullptr;
    if (!text) PyErr_Print();
    return {text ? text : "the launch failed in Python", own && text};
  }
  cuda::Target target_;
  const cuda::Configuration& configuration_;
  PyObject* launch_;
};

PyObject* emulate(PyObject*, PyObject* arguments) {
  int arch;
  unsigned configuration = 0;
  int block_bytes = 0, cluster_blocks = 0;  // 0: the chip's own values
  int wgmma = cuda::wgmma_is_on(), pairs = static_cast<int>(cuda::wanted_pairs());
  PyObject *call, *launch;
  if (!PyArg_ParseTuple(arguments, "iOO|Iiipi", &arch, &call, &launch, &configuration, &block_bytes,
                        &cluster_blocks, &wgmma, &pairs))
    return nullptr;
  constexpr size_t count = std::size(cuda::configurations);
  if (configuration >= count)
    fail(ErrorKind::value, "emulate: the configuration is ", configuration, "; the last is ", count - 1);
  cuda::Target target = target_of_arch(arch);
  if (block_bytes) target.block_bytes = block_bytes;
  if (cluster_blocks) target.cluster_blocks = cluster_blocks;
  target.wgmma = wgmma != 0, target.pairs = static_cast<cuda::Pairs>(pairs);
  Emulation emulation(target, launch, configuration);
  return PyObject_CallNoArgs(call);
}

PyObject* memory_of(PyObject*, PyObject* object) {
  const at::Tensor* tensor = tensor_in(object);
  if (!tensor || !tensor->is_meta()) {
    PyErr_SetString(PyExc_TypeError, "host_memory: takes a meta tensor");
    return nullptr;
  }
  return PyLong_FromVoidPtr(host_memory(*tensor->storage().unsafeGetStorageImpl()));
}

// Returns the offset of each 16-byte chunk of a tile that is staged for ldmatrix.
PyObject* shared_offsets(PyObject*, PyObject* arguments) {
  int rows, width, element_bytes;
  if (!PyArg_ParseTuple(arguments, "iii", &rows, &width, &element_bytes)) return nullptr;
  const cuda::SharedLayout layout = cuda::whole_rows(rows, width, element_bytes);
  const int each = cuda::SharedLayout::chunk_bytes / element_bytes;
  Owned list(PyList_New(0));
  for (int row = 0; row < rows; ++row)
    for (int at = 0; at < width; at += each) {
      const Owned offset(PyLong_FromLongLong(layout.offset_of(row, at)));
      if (!list || !offset || PyList_Append(list.get(), offset.get()) < 0) return nullptr;
    }
  return list.release();
}

// failure_text(assertion, element, (x, y, z)) returns the message of a failed assertion.
PyObject* failure_words(PyObject*, PyObject* arguments) {
  const char *where, *message, *kernel;
  PyObject* extents;
  long long element, x, y, z;
  if (!PyArg_ParseTuple(arguments, "(sssO!)L(LLL)", &where, &message, &kernel, &PyTuple_Type, &extents,
                        &element, &x, &y, &z))
    return nullptr;
  Assertion assertion{where, message, kernel, {}};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(extents); ++i)
    assertion.shape.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(extents, i)));
  return PyErr_Occurred() ? nullptr
                          : PyUnicode_FromString(failure_text(assertion, element, {x, y, z}).c_str());
}

// Returns the integers of a Python sequence; sets an error if there are others.
std::vector<int64_t> integers_in(PyObject* sequence) {
  std::vector<int64_t> values;
  const Owned list(PySequence_List(sequence));
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i)
    values.push_back(PyLong_AsLongLong(PyList_GET_ITEM(list.get(), i)));
  return values;
}

// tensor_map(parameter, unit, box, swizzle, sliced, (address, element bytes, sizes, strides)) returns (sizes,
// strides in bytes, boxes) of the map's dimensions.
PyObject* tensor_map(PyObject*, PyObject* arguments) {
  cuda::TensorMapSpec map;
  unsigned long long address;
  int element_bytes;
  PyObject *box, *sizes, *strides;
  if (!PyArg_ParseTuple(arguments, "iiOii(KiOO)", &map.parameter, &map.unit, &box, &map.swizzle, &map.sliced,
                        &address, &element_bytes, &sizes, &strides))
    return nullptr;
  const std::vector<int64_t> extents = integers_in(sizes), steps = integers_in(strides);
  for (const int64_t each : integers_in(box)) map.box.push_back(static_cast<int>(each));
  if (PyErr_Occurred()) return nullptr;
  if (extents.size() > max_array_rank || steps.size() != extents.size() || map.box.size() != extents.size() ||
      map.unit < 0 || map.unit >= static_cast<int>(extents.size()) ||
      map.sliced >= static_cast<int>(extents.size()))
    fail(ErrorKind::value, "tensor_map: ", extents.size(), " sizes, ", steps.size(), " strides, ",
         map.box.size(), " boxes and unit axis ", map.unit, "; give one of each for an axis");
  ArrayArgument array{.data = reinterpret_cast<void*>(address), .rank = static_cast<int>(extents.size())};
  for (const DType dtype : {DType::u8, DType::u16, DType::u32, DType::u64})
    if (info(dtype).bytes == element_bytes) array.dtype = dtype;
  std::copy(extents.begin(), extents.end(), array.sizes.begin());
  std::copy(steps.begin(), steps.end(), array.strides.begin());
  const TensorMapShape shape = shape_of(map, array);
  check_tensor_map(shape, "emulated", map.parameter);
  const auto list = [&](const auto& values) {
    Owned numbers(PyList_New(shape.rank));
    for (int i = 0; numbers && i < shape.rank; ++i)
      PyList_SET_ITEM(numbers.get(), i, PyLong_FromLongLong(values[static_cast<size_t>(i)]));
    return numbers.release();
  };
  return Py_BuildValue("(NNN)", list(shape.sizes), list(shape.strides), list(shape.box));
}

// Returns the statements of a product in a struct of a text that tests write.
PyObject* wgmma_statement(PyObject*, PyObject* arguments) {
  const char *left, *right;
  long long columns;
  int left_k_major, right_k_major;
  PyObject* lists[3];
  if (!PyArg_ParseTuple(arguments, "LssppO!O!O!", &columns, &left, &right, &left_k_major, &right_k_major,
                        &PyList_Type, &lists[0], &PyList_Type, &lists[1], &PyList_Type, &lists[2]))
    return nullptr;
  std::vector<int64_t> offsets[3];
  for (size_t i = 0; i < 3; ++i) offsets[i] = integers_in(lists[i]);
  if (PyErr_Occurred()) return nullptr;
  const std::string text = cuda::wgmma_text({.columns = columns,
                                             .left = dtype_named(left),
                                             .right = dtype_named(right),
                                             .left_k_major = left_k_major != 0,
                                             .right_k_major = right_k_major != 0,
                                             .right_steps = offsets[2],
                                             .left_steps = offsets[0],
                                             .left_blocks = offsets[1]});
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyMethodDef methods[] = {
    {"emulate", guarded<emulate>, METH_VARARGS,
     "emulate(arch, call, launch, configuration=0, block_bytes=0, cluster_blocks=0, wgmma=as TILE_WGMMA "
     "says, pairs=as TILE_PAIRS says, 0: none, 1: with the hint num_ctas, 2: all): what "
     "call() "
     "gives, "
     "where meta tensors stand for those on "
     "a GPU and have "
     "memory; each launch is launch({'text', 'entry', 'threads', 'cluster', 'pair_axis', 'shared_bytes', "
     "'assertions', "
     "'tensor_maps', 'parameters'}, grid, arguments), which "
     "returns None or what went wrong; in a tuple, what the kernel itself says."},
    {"shared_offsets", guarded<shared_offsets>, METH_VARARGS,
     "shared_offsets(rows, width, element_bytes): the offset of each 16 bytes of a staged tile, in bytes."},
    {"tensor_map", guarded<tensor_map>, METH_VARARGS,
     "tensor_map(parameter, unit, box, swizzle, sliced, (address, element bytes, sizes, strides)): (sizes, "
     "strides "
     "in "
     "bytes, boxes) of a tensor map's dimensions, or the error of a launch that cannot have it."},
    {"wgmma_text", guarded<wgmma_statement>, METH_VARARGS,
     "wgmma_text(columns, left, right, left_k_major, right_k_major, left_steps, left_blocks, right_steps): "
     "the "
     "statement of a product, with the bytes at which its steps and blocks of rows begin; without left_steps "
     "the left operand is in registers."},
    {"failure_text", guarded<failure_words>, METH_VARARGS,
     "failure_text(assertion, element, (x, y, z)): the error of a program's assertion that failed."},
    {"host_memory", guarded<memory_of>, METH_O, "The address of that memory of a meta tensor's storage."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

Owned program_of(const cuda::Program& program) {
  Owned assertions(PyList_New(0));
  for (const Assertion& assertion : program.assertions) {
    Owned extents(PyTuple_New(static_cast<Py_ssize_t>(assertion.shape.size())));
    for (size_t i = 0; extents && i < assertion.shape.size(); ++i)
      PyTuple_SET_ITEM(extents.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(assertion.shape[i]));
    const Owned row(Py_BuildValue("(sssN)", assertion.where.c_str(), assertion.message.c_str(),
                                  assertion.kernel.c_str(), extents.release()));
    if (!assertions || !row || PyList_Append(assertions.get(), row.get()) < 0) return nullptr;
  }
  Owned maps(PyList_New(0)), parameters(PyList_New(0));
  for (const cuda::TensorMapSpec& map : program.tensor_maps) {
    Owned box(PyList_New(0));
    for (const int extent : map.box)
      if (const Owned number(PyLong_FromLong(extent)); !box || PyList_Append(box.get(), number.get()) < 0)
        return nullptr;
    const Owned row(Py_BuildValue("{s:i,s:i,s:N,s:i,s:i,s:i}", "parameter", map.parameter, "unit", map.unit,
                                  "box", box.release(), "swizzle", map.swizzle, "rounds", map.rounds ? 1 : 0,
                                  "sliced", map.sliced));
    if (!maps || !row || PyList_Append(maps.get(), row.get()) < 0) return nullptr;
  }
  for (const cuda::Parameter& parameter : program.parameters) {
    const Owned row(Py_BuildValue("(si)", cuda::name_of(parameter.kind), parameter.index));
    if (!parameters || !row || PyList_Append(parameters.get(), row.get()) < 0) return nullptr;
  }
  return Owned(Py_BuildValue(
      "{s:s,s:s,s:i,s:i,s:i,s:i,s:O,s:s,s:s,s:N,s:N,s:N}", "text", program.source.c_str(), "entry",
      program.entry.c_str(), "threads", program.threads, "cluster", program.cluster, "pair_axis",
      program.pair_axis, "shared_bytes", program.shared_bytes, "persistent",
      program.persistent ? Py_True : Py_False, "path", program.path.c_str(), "why", program.why.c_str(),
      "assertions", assertions.release(), "tensor_maps", maps.release(), "parameters", parameters.release()));
}

int add_emulation(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace tile::python
