// Compiled calls: launches of Python kernels whose arrays were described beforehand, for generated code. A
// launch then only reads the addresses of tensors, and the numbers that were not known before.
#include "python/kernel_call.h"

#include <structmember.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <new>
#include <optional>
#include <vector>

#include <c10/util/SmallVector.h>

#include "dsl/tracer.h"
#include "python/capture.h"
#include "python/ir_builder.h"
#include "runtime/array_key.h"
#include "torch/args.h"

namespace tile::python {
namespace {

// A value that is known beforehand, or the position of a run-time number.
struct Number {
  int64_t value = 0;  // the bits of a double if it is a float
  int position = -1;  // -1: it is known
};

// A tensor as far as an array's words in the key depend on it.
struct Kind {
  at::ScalarType dtype = at::kFloat;
  c10::DeviceType device = at::kCPU;
  bool operator==(const Kind&) const = default;
};

struct ArrayLayout {
  size_t tensor = 0;
  Number offset;
  std::array<Number, max_array_rank> sizes, strides;
  bool known = true;  // the sizes and strides are

  // These follow from the sizes, the strides and the kind of the last tensor. The interpreter guards them.
  ArrayArgument argument;  // without address and device index
  uint64_t word = 0;       // of the key, for an aligned address
  bool far = false;
  int64_t first = 0, last = -1;  // the smallest and the largest index of an element, without the offset
  std::optional<Kind> kind;
};
struct ScalarLayout {
  DType dtype = DType::i32;
  Number value;
};
// A parameter of the kernel: its place among arrays, or among scalars.
struct Parameter {
  bool is_array;
  size_t at;
};

struct Layout {
  std::vector<Parameter> parameters;
  std::vector<ArrayLayout> arrays;
  std::vector<ScalarLayout> scalars;
  std::array<Number, 3> grid;
  size_t tensors = 0;
  std::vector<bool> floats;  // for each run-time number, true if it is a float
};

struct CompiledObject {
  PyObject_HEAD vectorcallfunc call;
  PyObject* kernel;
  Layout* layout;
};
CompiledObject* compiled_of(PyObject* self) { return reinterpret_cast<CompiledObject*>(self); }

std::string prefix_of(const PythonKernel& kernel) { return str("CompiledCall of ", kernel.name(), ": "); }

// Throws an error that names the value, instead of the one that is set.
[[noreturn]] void fail_number(const PythonKernel& kernel, PyObject* value, const char* wanted) {
  const bool overflow = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
  PyErr_Clear();
  const Owned text(PyObject_Repr(value));
  const char* shown = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!shown) throw PythonFailure();
  if (overflow) fail(ErrorKind::value, prefix_of(kernel), shown, " is out of range of int64");
  fail(ErrorKind::type, prefix_of(kernel), shown, " is no ", wanted);
}
int64_t integer_of(const PythonKernel& kernel, PyObject* value) {
  const Owned index(PyLong_CheckExact(value) ? Py_NewRef(value) : PyNumber_Index(value));
  const int64_t read = index ? PyLong_AsLongLong(index.get()) : -1;
  if (read == -1 && PyErr_Occurred()) [[unlikely]]
    fail_number(kernel, value, "integer");
  return read;
}
int64_t float_of(const PythonKernel& kernel, PyObject* value) {
  const double read = PyFloat_AsDouble(value);
  if (read == -1 && PyErr_Occurred()) [[unlikely]]
    fail_number(kernel, value, "number");
  return std::bit_cast<int64_t>(read);
}

// Reads a layout from Python.
class Reader {
 public:
  Reader(PythonKernel& kernel, Layout& layout) : kernel_(kernel), layout_(layout) {}

  void read(PyObject* given) {
    if (!PyTuple_Check(given) || static_cast<size_t>(PyTuple_GET_SIZE(given)) != kernel_.kinds.size() + 1)
      fail(ErrorKind::value, prefix(), "a layout is a tuple of an entry for each of the ",
           kernel_.kinds.size(), " parameters, and the grid");
    for (at_ = 0; at_ < kernel_.kinds.size(); ++at_) read_parameter(PyTuple_GET_ITEM(given, at(at_)));
    PyObject* grid = PyTuple_GET_ITEM(given, at(kernel_.kinds.size()));
    if (!PyTuple_Check(grid) || PyTuple_GET_SIZE(grid) != 3)
      fail(ErrorKind::value, prefix(), "the last entry of a layout is the grid, three numbers");
    for (size_t axis = 0; axis < 3; ++axis) layout_.grid[axis] = number(PyTuple_GET_ITEM(grid, at(axis)));
    for (size_t i = 0; i < kinds_.size(); ++i)
      if (!kinds_[i])
        fail(ErrorKind::value, prefix(), "nothing in the layout refers to the run-time number n", i,
             "; number them from 0 without gaps");
      else
        layout_.floats.push_back(*kinds_[i]);
    std::vector<bool> used(layout_.tensors);
    for (const ArrayLayout& array : layout_.arrays) used[array.tensor] = true;
    for (size_t i = 0; i < used.size(); ++i)
      if (!used[i])
        fail(ErrorKind::value, prefix(), "nothing in the layout refers to tensor ", i,
             "; number them from 0 without gaps");
  }

 private:
  static constexpr int64_t most_given = 1 << 16;  // a larger index is a mistake, not a list of that length

  static Py_ssize_t at(size_t i) { return static_cast<Py_ssize_t>(i); }
  std::string prefix() const { return prefix_of(kernel_); }
  std::string entry() const { return str(prefix(), "entry ", at_, ": "); }

  int64_t integer(PyObject* value) const { return integer_of(kernel_, value); }
  Number number(PyObject* value, bool floating = false) {
    if (!PyUnicode_Check(value)) return {floating ? float_of(kernel_, value) : integer(value), -1};
    const char* text = PyUnicode_AsUTF8(value);
    if (!text) throw PythonFailure();
    int64_t position = 0;
    const char* digit = text + 1;
    if (*text == 'n')
      for (; *digit >= '0' && *digit <= '9' && position < most_given; ++digit)
        position = position * 10 + (*digit - '0');
    if (*text != 'n' || digit == text + 1 || *digit || position >= most_given)
      fail(ErrorKind::value, prefix(), "'", text, "' is no run-time number; write n0, n1, ...");
    const auto place = static_cast<size_t>(position);
    if (place >= kinds_.size()) kinds_.resize(place + 1);
    if (kinds_[place].value_or(floating) != floating)
      fail(ErrorKind::value, prefix(), text, " is a float in one entry and an integer in another");
    kinds_[place] = floating;
    return {0, static_cast<int>(position)};
  }
  void read_parameter(PyObject* given) {
    if (kernel_.kinds[at_] != run_time && kernel_.kinds[at_] != wide_integer)
      fail(ErrorKind::type, entry(),
           "the kernel's parameter is a constant or a structure; write the constant into the kernel");
    PyObject* name = PyTuple_Check(given) && PyTuple_GET_SIZE(given) ? PyTuple_GET_ITEM(given, 0) : nullptr;
    const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
    const std::string_view kind = text ? text : "";
    const Py_ssize_t count = text ? PyTuple_GET_SIZE(given) : 0;
    if (kind == "array" && count == 5) return read_array(given);
    const bool floating = kind == "float";
    if ((kind != "number" && !floating) || count != 2)
      fail(ErrorKind::value, entry(),
           R"(write ("array", tensor, offset, sizes, strides), ("number", value) or ("float", value))");
    if (floating && kernel_.kinds[at_] == wide_integer)
      fail(ErrorKind::type, entry(), "a float for a parameter that is annotated as an integer");
    const DType dtype = floating ? DType::f32 : kernel_.kinds[at_] == wide_integer ? DType::i64 : DType::i32;
    layout_.parameters.push_back({false, layout_.scalars.size()});
    layout_.scalars.push_back({dtype, number(PyTuple_GET_ITEM(given, 1), floating)});
  }
  void read_array(PyObject* given) {
    ArrayLayout array;
    const int64_t tensor = integer(PyTuple_GET_ITEM(given, 1));
    if (tensor < 0 || tensor >= most_given)
      fail(ErrorKind::value, entry(), tensor, " is no index of a tensor");
    array.tensor = static_cast<size_t>(tensor);
    array.offset = number(PyTuple_GET_ITEM(given, 2));
    PyObject *sizes = PyTuple_GET_ITEM(given, 3), *strides = PyTuple_GET_ITEM(given, 4);
    if (!PyTuple_Check(sizes) || !PyTuple_Check(strides) ||
        PyTuple_GET_SIZE(sizes) != PyTuple_GET_SIZE(strides))
      fail(ErrorKind::value, entry(), "sizes and strides are tuples of one length");
    const Py_ssize_t rank = PyTuple_GET_SIZE(sizes);
    if (rank > max_array_rank)
      fail(ErrorKind::value, entry(), "the array has rank ", rank, "; the most is ", max_array_rank);
    array.argument.rank = static_cast<int>(rank);
    for (size_t axis = 0; axis < static_cast<size_t>(rank); ++axis) {
      array.sizes[axis] = number(PyTuple_GET_ITEM(sizes, at(axis)));
      array.strides[axis] = number(PyTuple_GET_ITEM(strides, at(axis)));
      array.known = array.known && array.sizes[axis].position < 0 && array.strides[axis].position < 0;
      array.argument.sizes[axis] = array.sizes[axis].value;
      array.argument.strides[axis] = array.strides[axis].value;
    }
    layout_.tensors = std::max(layout_.tensors, array.tensor + 1);
    layout_.parameters.push_back({true, layout_.arrays.size()});
    layout_.arrays.push_back(std::move(array));
  }

  PythonKernel& kernel_;
  Layout& layout_;
  size_t at_ = 0;
  std::vector<std::optional<bool>> kinds_;  // of run-time numbers: true for a float
};

// One launch.
class Launch {
 public:
  Launch(CompiledObject& self, PyObject* const* given, size_t count)
      : self_(self), kernel_(kernel_of(self.kernel)), layout_(*self.layout), given_(given) {
    if (count != layout_.tensors + layout_.floats.size()) [[unlikely]]
      fail(ErrorKind::type, prefix(), "takes ", layout_.tensors, " tensors and ", layout_.floats.size(),
           " numbers but is given ", count, " arguments");
    // Both may run Python, whose threads may use this object, so they come before everything cached.
    for (size_t i = 0; i < layout_.floats.size(); ++i) numbers_.push_back(number(i));
    PyObject* capture = reinterpret_cast<KernelObject*>(self.kernel)->capture;
    generation_ = capture ? generation_of(capture) : 0;
    key_.words.add(generation_);
    for (const Parameter& parameter : layout_.parameters)
      if (parameter.is_array)
        add(layout_.arrays[parameter.at]);
      else
        add(layout_.scalars[parameter.at]);
    key_.end();
  }
  Launch(const Launch&) = delete;

  void run() {
    const Grid grid{value(layout_.grid[0]), value(layout_.grid[1]), value(layout_.grid[2])};
    // Nothing is compiled for an empty grid. A negative one is an error of the launch.
    if (std::min({grid.x, grid.y, grid.z}) == 0) return;
    const Released released(true);
    kernel_.launch_call(grid, key_.words, {refs_, passed_}, [this](Tracer& tracer) {
      const GilHeld held;
      trace(tracer);
    });
  }

 private:
  std::string prefix() const { return prefix_of(kernel_); }

  int64_t number(size_t i) {
    PyObject* given = given_[layout_.tensors + i];
    return layout_.floats[i] ? float_of(kernel_, given) : integer_of(kernel_, given);
  }
  int64_t value(const Number& number) const {
    return number.position < 0 ? number.value : numbers_[static_cast<size_t>(number.position)];
  }

  DType dtype_of(at::ScalarType type, size_t tensor) const {
    try {
      return to_dtype(type);
    } catch (const Error& error) {
      fail(error.kind(), prefix(), "argument ", tensor, ": ", error.what());
    }
  }
  // Computes everything of an array that needs no tensor but its kind.
  void describe(ArrayLayout& array, Kind kind) const {
    ArrayArgument& argument = array.argument;
    array.kind.reset();  // in case of an error
    argument.data = nullptr;
    argument.dtype = dtype_of(kind.dtype, array.tensor);
    argument.device = kind.device == at::kCPU ? DeviceKind::cpu : DeviceKind::cuda;
    __extension__ using Wide = __int128;
    Wide first = 0, last = 0;
    bool empty = false;
    for (size_t axis = 0; axis < static_cast<size_t>(argument.rank); ++axis) {
      const int64_t size = argument.sizes[axis] = value(array.sizes[axis]);
      const int64_t stride = argument.strides[axis] = value(array.strides[axis]);
      if (size < 0) [[unlikely]]
        fail(ErrorKind::value, prefix(), "the size of an array is ", size, " along axis ", axis);
      empty = empty || size == 0;
      const Wide reach = Wide(size ? size - 1 : 0) * stride;
      (reach < 0 ? first : last) += reach;
    }
    constexpr Wide most = int64_t{1} << 59;  // in elements, so that their bytes and an offset fit int64
    if (!empty && (first < -most || last > most)) fail_bounds(array);
    array.first = empty ? 0 : static_cast<int64_t>(first);
    array.last = empty ? -1 : static_cast<int64_t>(last);
    array.far = has_far_elements(argument);
    array.word = key_word(argument);
    array.kind = kind;
  }
  [[noreturn]] void fail_bounds(const ArrayLayout& array) const {
    std::string sizes, strides;
    for (size_t axis = 0; axis < static_cast<size_t>(array.argument.rank); ++axis) {
      sizes += str(axis ? ", " : "", array.argument.sizes[axis]);
      strides += str(axis ? ", " : "", array.argument.strides[axis]);
    }
    fail(ErrorKind::value, prefix(), "an array of sizes (", sizes, "), strides (", strides, ") and offset ",
         value(array.offset), " does not lie within the memory of tensor ", array.tensor);
  }
  void add(ArrayLayout& array) {
    const at::Tensor* tensor = tensor_in(given_[array.tensor]);
    if (!tensor) [[unlikely]]
      fail(ErrorKind::type, prefix(), "argument ", array.tensor, " is of type ",
           Py_TYPE(given_[array.tensor])->tp_name, "; pass a tensor");
    const c10::TensorImpl& impl = *tensor->unsafeGetTensorImpl();
    const c10::Device device = impl.device();
    const bool plain = impl.layout() == at::kStrided && !impl.is_python_dispatch() && !tensor->is_neg() &&
                       (device.is_cpu() || device.is_cuda());
    char* data;
    if (plain) [[likely]]
      data = static_cast<char*>(tensor->data_ptr());
    else
      data = data_of_other(*tensor, array.tensor);
    const Kind kind{c10::typeMetaToScalarType(impl.dtype()), device.type()};
    if (!array.known || array.kind != kind) describe(array, kind);
    auto* argument = new (arrays_ + array_count_++ * sizeof(ArrayArgument)) ArrayArgument(array.argument);
    const int64_t offset = value(array.offset), bytes = info(argument->dtype).bytes;
    if (array.last >= 0) {  // an empty array may begin anywhere
      const auto held = static_cast<int64_t>(impl.unsafe_storage().nbytes()) / bytes;
      int64_t begin;
      // A tensor without elements has no address, whatever its storage holds. One that stands for a GPU's has
      // none either.
      if ((!data && plain) || __builtin_add_overflow(offset, impl.storage_offset(), &begin) || begin < -array.first ||
          begin >= held - array.last) [[unlikely]]
        fail_bounds(array);
      data += offset * bytes;
    }
    argument->data = data;
    argument->device_index = device.is_cuda() ? device.index() : 0;
    key_.words.add(with_data(array.word, argument->data));
    key_.note(array.far ? CallKey::far_array : CallKey::near_array);
    refs_[passed_++] = *argument;
  }
  // Returns the address of a tensor that stands for one on a GPU while kernels are inspected. Raises the
  // error of all other tensors that are not plain.
  char* data_of_other(const at::Tensor& tensor, size_t i) const {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (impl.is_python_dispatch())
      fail(ErrorKind::type, prefix(), "argument ", i,
           " is a tensor of a subclass of torch.Tensor; pass the tensor that it holds");
    try {
      return static_cast<char*>(to_array_argument(tensor).data);
    } catch (const Error& error) {
      fail(error.kind(), prefix(), "argument ", i, ": ", error.what());
    }
  }
  void add(const ScalarLayout& scalar) {
    const int64_t read = value(scalar.value);
    auto* kept = new (scalars_ + scalar_count_++ * sizeof(ScalarArgument)) ScalarArgument();
    if (scalar.dtype == DType::f32) {
      *kept = scalar_argument(static_cast<float>(std::bit_cast<double>(read)));
    } else if (scalar.dtype == DType::i64) {
      *kept = scalar_argument(read);
    } else {
      if (read != static_cast<int32_t>(read)) [[unlikely]]
        fail(ErrorKind::value, prefix(), read,
             " is out of range of int32; annotate the parameter with ScalarInt64");
      *kept = scalar_argument(static_cast<int>(read));
    }
    key_.words.add(static_cast<uint64_t>(scalar.dtype));
    key_.note(CallKey::scalar_value);
    refs_[passed_++] = *kept;
  }
  // The interpreter is held.
  void trace(Tracer& tracer) const {
    BuiltFunction built(tracer.function(), tracer.block());
    const Owned numbers(PyList_New(0)), values(PyTuple_New(static_cast<Py_ssize_t>(passed_)));
    if (!built.object() || !numbers || !values) throw PythonFailure();
    for (size_t i = 0; i < passed_; ++i) {
      PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), Py_NewRef(Py_None));
      const Owned number = described(built, tracer, refs_[i]);
      if (!number || PyList_Append(numbers.get(), number.get()) < 0) throw PythonFailure();
    }
    translate(self_.kernel, built, numbers, values, Owned(PyLong_FromUnsignedLongLong(generation_)));
  }

  CompiledObject& self_;
  PythonKernel& kernel_;
  Layout& layout_;
  PyObject* const* given_;
  c10::SmallVector<int64_t, 32> numbers_;
  size_t passed_ = 0, array_count_ = 0, scalar_count_ = 0;
  uint64_t generation_ = 0;
  CallKey key_;
  ArgumentRef refs_[most_arguments];
  alignas(ArrayArgument) std::byte arrays_[most_arguments * sizeof(ArrayArgument)];
  alignas(ScalarArgument) std::byte scalars_[most_arguments * sizeof(ScalarArgument)];
};

PyObject* call(PyObject* self, PyObject* const* given, size_t flags, PyObject* names) {
  return raising([&] {
    if (names && PyTuple_GET_SIZE(names)) fail(ErrorKind::type, "CompiledCall: takes no named arguments");
    Launch(*compiled_of(self), given, static_cast<size_t>(PyVectorcall_NARGS(flags))).run();
    return Py_NewRef(Py_None);
  });
}

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  PyObject *kernel, *given;
  static const char* const names[] = {"kernel", "layout", nullptr};
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "OO", const_cast<char**>(names), &kernel, &given))
    return nullptr;
  return raising([&]() -> PyObject* {
    if (!is_kernel(kernel))
      fail(ErrorKind::type, "CompiledCall: takes a kernel, not an object of type ", Py_TYPE(kernel)->tp_name);
    auto layout = std::make_unique<Layout>();
    Reader(kernel_of(kernel), *layout).read(given);
    auto* made = reinterpret_cast<CompiledObject*>(type->tp_alloc(type, 0));
    if (!made) return nullptr;
    made->call = call;
    made->kernel = Py_NewRef(kernel);
    made->layout = layout.release();
    return reinterpret_cast<PyObject*>(made);
  });
}
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(compiled_of(self)->kernel);
  return 0;
}
void free_compiled(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_CLEAR(compiled_of(self)->kernel);
  delete compiled_of(self)->layout;
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledObject, call), READONLY, nullptr},
    {"kernel", T_OBJECT, offsetof(CompiledObject, kernel), READONLY, "The kernel that it launches."},
    {nullptr, 0, 0, 0, nullptr},
};
constexpr const char* doc =
    "CompiledCall(kernel, layout): a launch of a kernel with arrays that are described beforehand. A call "
    "with tensors, then numbers, runs the kernel in the current stream.\n\n"
    "layout: a tuple of an entry for each parameter of the kernel, and the grid, three numbers. Entries are "
    "(\"array\", tensor, offset, sizes, strides), where tensor is the index of an argument and the others "
    "count elements; (\"number\", value) for an integer; (\"float\", value). Each number may be \"n0\", "
    "\"n1\", ... instead, a number that is an argument of the call.\n\n"
    "The caller makes sure that arrays which the kernel writes overlap no others. Autograd does not see the "
    "writes.";
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(make)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(free_compiled)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_members, members},
                       {Py_tp_doc, const_cast<char*>(doc)},
                       {0, nullptr}};
PyType_Spec spec = {"tile_ops._C.CompiledCall", sizeof(CompiledObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

int add_compiled_call(PyObject* module) {
  const Owned type(PyType_FromSpec(&spec));
  return type ? PyModule_AddObjectRef(module, "CompiledCall", type.get()) : -1;
}

}  // namespace tile::python
