// Compiled calls: launches of Python kernels whose arrays were described beforehand, for generated code.
#include "python/kernel_call.h"

#include <structmember.h>

#include <bit>
#include <cstddef>
#include <vector>

#include "dsl/tracer.h"
#include "python/capture.h"
#include "python/ir_builder.h"
#include "torch/described_call.h"

namespace tile::python {
namespace {

using Number = CallLayout::Number;

struct CompiledObject {
  PyObject_HEAD vectorcallfunc call;
  PyObject* kernel;
  CallLayout* layout;
};
CompiledObject* compiled_of(PyObject* self) { return reinterpret_cast<CompiledObject*>(self); }

constexpr std::string_view what = "CompiledCall of ";  // begins errors
std::string prefix_of(const PythonKernel& kernel) { return str(what, kernel.name(), ": "); }

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
  Reader(PythonKernel& kernel, CallLayout& layout)
      : kernel_(kernel), layout_(layout), build_(layout, prefix_of(kernel)) {}

  void read(PyObject* given) {
    if (!PyTuple_Check(given) || static_cast<size_t>(PyTuple_GET_SIZE(given)) != kernel_.kinds.size() + 1)
      fail(ErrorKind::value, prefix(), "a layout is a tuple of an entry for each of the ",
           kernel_.kinds.size(), " parameters, and the grid");
    for (at_ = 0; at_ < kernel_.kinds.size(); ++at_) read_parameter(PyTuple_GET_ITEM(given, at(at_)));
    PyObject* grid = PyTuple_GET_ITEM(given, at(kernel_.kinds.size()));
    if (!PyTuple_Check(grid) || PyTuple_GET_SIZE(grid) != 3)
      fail(ErrorKind::value, prefix(), "the last entry of a layout is the grid, three numbers");
    for (size_t axis = 0; axis < 3; ++axis) layout_.grid[axis] = number(PyTuple_GET_ITEM(grid, at(axis)));
    build_.finish();
  }

 private:
  static Py_ssize_t at(size_t i) { return static_cast<Py_ssize_t>(i); }
  std::string prefix() const { return prefix_of(kernel_); }
  std::string entry() const { return str(prefix(), "entry ", at_, ": "); }

  Number number(PyObject* value, bool floating = false) {
    if (!PyUnicode_Check(value))
      return {floating ? float_of(kernel_, value) : integer_of(kernel_, value), -1};
    const char* text = PyUnicode_AsUTF8(value);
    if (!text) throw PythonFailure();
    return build_.run_time(text, floating);
  }
  std::vector<Number> numbers(PyObject* values) {
    if (!PyTuple_Check(values)) fail(ErrorKind::value, entry(), "sizes and strides are tuples of one length");
    std::vector<Number> read;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i)
      read.push_back(number(PyTuple_GET_ITEM(values, i)));
    return read;
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
    build_.add_scalar(dtype, number(PyTuple_GET_ITEM(given, 1), floating));
  }
  void read_array(PyObject* given) {
    const int64_t tensor = integer_of(kernel_, PyTuple_GET_ITEM(given, 1));
    const Number offset = number(PyTuple_GET_ITEM(given, 2));
    const std::vector<Number> sizes = numbers(PyTuple_GET_ITEM(given, 3));
    build_.add_array(tensor, offset, sizes, numbers(PyTuple_GET_ITEM(given, 4)));
  }

  PythonKernel& kernel_;
  CallLayout& layout_;
  LayoutBuilder build_;
  size_t at_ = 0;
};

// One launch.
class Launch : DescribedArguments {
 public:
  Launch(CompiledObject& self, PyObject* const* given, size_t count)
      : DescribedArguments(*self.layout, what, kernel_of(self.kernel).name()),
        self_(self),
        kernel_(kernel_of(self.kernel)),
        given_(given) {
    if (count != layout_.tensors + layout_.floats.size()) [[unlikely]]
      fail(ErrorKind::type, prefix(), "takes ", layout_.tensors, " tensors and ", layout_.floats.size(),
           " numbers but is given ", count, " arguments");
    // Both may run Python, whose threads may use this object, so they come before everything cached.
    for (size_t i = 0; i < layout_.floats.size(); ++i) numbers_.push_back(number(i));
    PyObject* capture = reinterpret_cast<KernelObject*>(self.kernel)->capture;
    generation_ = capture ? generation_of(capture) : 0;
    key_.words.add(generation_);
    add_all([this](size_t i) { return tensor(i); });
  }

  void run() {
    const Grid blocks = grid();
    // Nothing is compiled for an empty grid. A negative one is an error of the launch.
    if (is_empty(blocks)) return;
    const Released released(true);
    kernel_.launch_call(blocks, key_.words, refs(), [this](Tracer& tracer) {
      const GilHeld held;
      trace(tracer);
    });
  }

 private:
  int64_t number(size_t i) {
    PyObject* given = given_[layout_.tensors + i];
    return layout_.floats[i] ? float_of(kernel_, given) : integer_of(kernel_, given);
  }
  const at::Tensor* tensor(size_t i) const {
    const at::Tensor* tensor = tensor_in(given_[i]);
    if (!tensor) [[unlikely]]
      fail(ErrorKind::type, prefix(), "argument ", i, " is of type ", Py_TYPE(given_[i])->tp_name,
           "; pass a tensor");
    return tensor;
  }
  // The interpreter is held.
  void trace(Tracer& tracer) const {
    BuiltFunction built(tracer.function(), tracer.block());
    const Owned numbers(PyList_New(0)), values(PyTuple_New(static_cast<Py_ssize_t>(passed_)));
    if (!built.object() || !numbers || !values) throw PythonFailure();
    for (size_t i = 0; i < passed_; ++i) {
      PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), Py_NewRef(Py_None));
      const Owned number = described(built, tracer, refs()[i]);
      if (!number || PyList_Append(numbers.get(), number.get()) < 0) throw PythonFailure();
    }
    translate(self_.kernel, built, numbers, values, Owned(PyLong_FromUnsignedLongLong(generation_)));
  }

  CompiledObject& self_;
  PythonKernel& kernel_;
  PyObject* const* given_;
  uint64_t generation_ = 0;
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
    auto layout = std::make_unique<CallLayout>();
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
