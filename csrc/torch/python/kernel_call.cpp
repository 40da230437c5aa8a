// Tensors and numbers of Python as a kernel's arguments. What is no tensor and no number, Python converts.
#include "torch/python/kernel_call.h"

#include <new>
#include <utility>

#include "dsl/tracer.h"
#include "torch/args.h"
#include "torch/python/ir_builder.h"

namespace tile::python {
namespace {

PyObject *convert_name, *constant_name, *translate_name;

ArrayArgument without_memory(const at::Tensor& tensor) {
  require_strided(tensor);
  ArrayArgument argument;
  argument.dtype = to_dtype(tensor.scalar_type());
  argument.rank = static_cast<int>(tensor.dim());
  if (argument.rank > max_array_rank)
    fail(ErrorKind::value, "a kernel cannot take a tensor of rank ", argument.rank, "; the most is ",
         max_array_rank, ", view it with fewer dimensions");
  argument.device = tensor.is_cpu() ? DeviceKind::cpu : DeviceKind::cuda;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    argument.sizes[static_cast<size_t>(axis)] = tensor.size(axis);
    argument.strides[static_cast<size_t>(axis)] = tensor.stride(axis);
  }
  return argument;
}

}  // namespace

PythonKernel& kernel_of(PyObject* self) {
  PythonKernel* kernel = reinterpret_cast<KernelObject*>(self)->kernel;
  if (!kernel) fail(ErrorKind::runtime, "this kernel has no function: its class did not call __init__");
  return *kernel;
}

Call::Call(PyObject* self, PyObject* const* given, size_t count, bool traced)
    : self_(self), kernel_(kernel_of(self)), given_(given), count_(count), traced_(traced) {
  const size_t expected = kernel_.kinds.size();
  if (count != expected) {
    PyErr_Format(PyExc_TypeError, "Kernel expects %zu argument%s but %zu %s given", expected,
                 expected == 1 ? "" : "s", count, count == 1 ? "was" : "were");
    throw PythonFailure();
  }
  for (size_t i = 0; i < count; ++i) kernel_.kinds[i] == constant ? add_constant(i) : add(i);
  key_.add(signature_);
}
void Call::trace(Tracer& tracer) const {
  const PyGILState_STATE state = PyGILState_Ensure();
  try {
    translate(tracer);
  } catch (...) {
    PyGILState_Release(state);
    throw;
  }
  PyGILState_Release(state);
}

// Which arguments are arrays, so that the words of the key cannot be taken for others'.
void Call::note(uint64_t bits) {
  signature_ = signature_ << 2 | bits;
  if (++noted_ % 32 == 0) key_.add(std::exchange(signature_, 0));
}
void Call::add(size_t i) {
  PyObject* value = given_[i];
  if (const at::Tensor* tensor = tensor_in(value)) return add_array(*tensor);
  if (PyBool_Check(value)) return add_scalar(scalar_argument(value == Py_True));
  if (PyLong_Check(value)) return add_scalar(integer(i, value));
  if (PyFloat_Check(value)) return add_scalar(scalar_argument(static_cast<float>(PyFloat_AS_DOUBLE(value))));
  const Owned number(PyLong_FromSize_t(i));
  Owned converted(PyObject_CallMethodObjArgs(self_, convert_name, number.get(), value, nullptr));
  if (!converted) throw PythonFailure();
  const at::Tensor* tensor = tensor_in(converted.get());
  TILE_CHECK(tensor != nullptr);
  add_array(*tensor);
  held_.push_back(std::move(converted));
}
void Call::add_array(const at::Tensor& tensor) {
  auto* array = new (arrays_ + array_count_++ * sizeof(ArrayArgument))
      ArrayArgument(traced_ ? without_memory(tensor) : to_array_argument(tensor));
  detail::key_of_array(key_, *array);
  note(1);
  refs_[passed_++] = *array;
}
ScalarArgument Call::integer(size_t i, PyObject* value) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  const bool wide = kernel_.kinds[i] == wide_integer;
  if (overflow || (!wide && number != static_cast<int32_t>(number))) {
    PyErr_Format(PyExc_OverflowError, "Invalid kernel argument #%zu: %R is out of range of int%d%s", i, value,
                 wide ? 64 : 32, wide ? "" : "; annotate the parameter with ScalarInt64");
    throw PythonFailure();
  }
  return wide ? scalar_argument(static_cast<int64_t>(number)) : scalar_argument(static_cast<int>(number));
}
void Call::add_scalar(const ScalarArgument& scalar) {
  auto* kept = new (scalars_ + scalar_count_++ * sizeof(ScalarArgument)) ScalarArgument(scalar);
  key_.add(static_cast<uint64_t>(scalar.dtype));
  note(2);
  refs_[passed_++] = *kept;
}
// Small integers by their value, everything else by the number that Python gives it.
void Call::add_constant(size_t i) {
  PyObject* value = given_[i];
  note(3);
  int overflow = 1;
  if (PyLong_CheckExact(value)) {
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow && number >= 0) return key_.add(static_cast<uint64_t>(number));
  }
  const Owned number(PyLong_FromSize_t(i));
  const Owned word(PyObject_CallMethodObjArgs(self_, constant_name, number.get(), value, nullptr));
  if (!word) throw PythonFailure();
  key_.add(~PyLong_AsUnsignedLongLong(word.get()));
}
void Call::translate(Tracer& tracer) const {
  BuiltFunction built(tracer.function());
  const Owned numbers(PyTuple_New(static_cast<Py_ssize_t>(count_)));
  const Owned values(PyTuple_New(static_cast<Py_ssize_t>(count_)));
  if (!built.object() || !numbers || !values) throw PythonFailure();
  size_t next = 0;
  for (size_t i = 0; i < count_; ++i) {
    PyObject* number = Py_NewRef(Py_None);
    if (kernel_.kinds[i] != constant) {
      const ArgumentRef& ref = refs_[next++];
      Value* value = ref.array ? detail::add_array_parameter(tracer, *ref.array)
                               : detail::add_scalar_parameter(tracer, ref.scalar->dtype);
      const Type& type = value->type;
      const std::string dtype(info(type.dtype).name);
      number = type.is_array()
                   ? Py_BuildValue("(nsi)", built.number_of(value), dtype.c_str(), type.array_rank)
                   : Py_BuildValue("(ns())", built.number_of(value), dtype.c_str());
    }
    PyTuple_SET_ITEM(numbers.get(), static_cast<Py_ssize_t>(i), number);
    PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), Py_NewRef(given_[i]));
  }
  const Owned done(PyObject_CallMethodObjArgs(self_, translate_name, built.object(), numbers.get(),
                                              values.get(), nullptr));
  if (!done) throw PythonFailure();
}

int make_call_names() {
  for (const auto& [name, text] :
       {std::pair{&convert_name, "_convert"}, {&constant_name, "_constant"}, {&translate_name, "_translate"}})
    if (!(*name = PyUnicode_InternFromString(text))) return -1;
  return 0;
}

}  // namespace tile::python
