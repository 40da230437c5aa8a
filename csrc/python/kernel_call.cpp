// Converts Python tensors and numbers to the arguments of a kernel. Python itself converts all other values.
#include "python/kernel_call.h"

#include <bit>
#include <new>
#include <optional>
#include <utility>

#include "dsl/tracer.h"
#include "python/capture.h"
#include "python/ir_builder.h"
#include "runtime/array_key.h"
#include "torch/args.h"

namespace tile::python {
namespace {

PyObject *flatten_name, *constant_name, *translate_name, *signature_name, *parameters_name;

// For a call that only compiles. The tensor may lack memory; otherwise its address determines the alignment.
ArrayArgument traced_argument(const at::Tensor& tensor) {
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
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (const void* memory = impl.has_storage() ? impl.storage().data() : nullptr)
    argument.data = static_cast<char*>(const_cast<void*>(memory)) + impl.storage_offset() * impl.itemsize();
  return argument;
}

// Returns true for a fake tensor, and for a wrapper around other tensors: neither has memory to read.
bool lacks_memory(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!impl.is_python_dispatch() || tensor.layout() != at::kStrided) return false;
  if (impl.has_symbolic_sizes_strides() || !impl.has_storage()) return true;
  const c10::Storage& storage = impl.storage();
  return storage.device().type() != tensor.device().type() || (tensor.numel() && !storage.nbytes());
}

// Returns true if a tensor that lacks memory wraps other tensors, and false if it is fake: the storage of a
// fake tensor is on another device.
bool wraps(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return !impl.has_symbolic_sizes_strides() &&
         (!impl.has_storage() || impl.storage().device().type() == tensor.device().type());
}

}  // namespace

PythonKernel& kernel_of(PyObject* self) {
  PythonKernel* kernel = reinterpret_cast<KernelObject*>(self)->kernel;
  if (!kernel) fail(ErrorKind::runtime, "this kernel has no function: its class did not call __init__");
  return *kernel;
}

void Given::bind(PyObject* self, PyObject* names) {
  const Owned signature(PyObject_GetAttr(self, signature_name));
  bound_.reset(signature ? PyObject_Vectorcall(signature.get(), values, count, names) : nullptr);
  if (!bound_) throw PythonFailure();
  TILE_CHECK(PyTuple_CheckExact(bound_.get()));
  values = PySequence_Fast_ITEMS(bound_.get());
  count = static_cast<size_t>(PyTuple_GET_SIZE(bound_.get()));
}

Call::Call(PyObject* self, PyObject* const* given, size_t count, bool traced)
    : self_(self), kernel_(kernel_of(self)), given_(given), count_(count), traced_(traced) {
  TILE_CHECK(count == kernel_.kinds.size());
  PyObject* capture = reinterpret_cast<KernelObject*>(self)->capture;
  if (capture && !traced) generation_ = generation_of(capture);
  key_.words.add(generation_);
  for (size_t i = 0; i < count; ++i)
    kernel_.kinds[i] == constant ? add_constant(i) : add(given[i], i, kernel_.kinds[i]);
  key_.end();
}
void Call::trace(Tracer& tracer) const {
  const GilHeld held;
  translate(tracer);
}

namespace {
// Returns true inside an operator, where torch has counted the write already or the tensor is new.
bool counted() { return c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView); }
void count_up(c10::TensorImpl& tensor) {
  if (tensor.version_counter().enabled()) tensor.bump_version();  // inference tensors have no version
}
}  // namespace

void Call::note_written(uint64_t which) const {
  if (counted()) return;
  for (; which; which &= which - 1) count_up(*tensors_[std::countr_zero(which)]->unsafeGetTensorImpl());
}
void note_write(const at::Tensor& tensor) {
  if (!counted()) count_up(*tensor.unsafeGetTensorImpl());
}

// Returns a text such as "Invalid kernel argument #0, 'x' of scaled".
std::string Call::argument_text(size_t i) const {
  const std::string text = str("Invalid kernel argument #", i);
  const std::optional<std::string> name = name_of(i);
  return name ? str(text, ", '", *name, "' of ", kernel_.name()) : text;
}
std::optional<std::string> Call::name_of(size_t i) const {
  const GilHeld held;
  const Owned names(PyObject_GetAttr(self_, parameters_name));
  const auto at = static_cast<Py_ssize_t>(i);
  const bool has = names && PyTuple_Check(names.get()) && at < PyTuple_GET_SIZE(names.get());
  const char* name = has ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(names.get(), at)) : nullptr;
  PyErr_Clear();
  return name ? std::optional<std::string>(name) : std::nullopt;
}
void Call::add(PyObject* value, size_t i, char kind) {
  if (value == Py_None)
    return key_.note(CallKey::constant_value);  // no other run-time argument has these bits
  const at::Tensor* tensor = kind == structured ? nullptr : tensor_in(value);
  // Scales are passed as their bits; the structure records their dtype.
  if (kind == read_only) [[unlikely]]
    read_only_ |= uint64_t{1} << passed_;
  if (tensor && tensor->scalar_type() != at::kFloat8_e8m0fnu) return add_array(i, *tensor);
  if (PyBool_Check(value) && kind != structured) return add_scalar(scalar_argument(value == Py_True));
  if (PyLong_Check(value) && kind != structured) return add_scalar(integer(i, value, kind));
  if (PyFloat_Check(value) && kind != structured)
    return add_scalar(scalar_argument(static_cast<float>(PyFloat_AS_DOUBLE(value))));
  add_structure(i);
}
// Python returns (word, letters, leaves). The word identifies the static part of the value; the leaves are
// its tensors and numbers, and the letters are their kinds.
void Call::add_structure(size_t i) {
  const Owned number(PyLong_FromSize_t(i));
  const Owned parts(PyObject_CallMethodObjArgs(self_, flatten_name, number.get(), given_[i], nullptr));
  PyObject *word, *leaves;
  const char* letters;
  if (!parts || !PyArg_ParseTuple(parts.get(), "OsO!", &word, &letters, &PyTuple_Type, &leaves))
    throw PythonFailure();
  key_.words.add(~PyLong_AsUnsignedLongLong(word));
  const size_t first = passed_, count = static_cast<size_t>(PyTuple_GET_SIZE(leaves));
  // Each of the remaining arguments needs at least one.
  if (passed_ + count + (count_ - i - 1) > most_arguments)
    fail(ErrorKind::value, "launch of ", kernel_.name(), ": its arguments hold more than ", most_arguments,
         " tensors and numbers; pass fewer");
  structures_.push_back({i, first, count, Owned(Py_NewRef(word)), Owned(Py_NewRef(leaves))});
  for (size_t k = 0; k < count; ++k) add(PyTuple_GET_ITEM(leaves, static_cast<Py_ssize_t>(k)), i, letters[k]);
}
ArrayArgument Call::array_of(size_t i, const at::Tensor& tensor) const {
  if (!traced_ && lacks_memory(tensor))
    fail(ErrorKind::type, argument_text(i),
         wraps(tensor)
             ? ": a tensor that wraps others has no memory of its own; pass the inner tensor, such as "
               "to_local() of a DTensor"
             : ": a tensor without memory, as fake ones are, cannot be launched on; give it to "
               "kernel.check(...) or kernel.ir(...)");
  try {
    return traced_ ? traced_argument(tensor) : to_array_argument(tensor);
  } catch (const Error& error) {
    explain(i, tensor, error);
  }
}
void Call::add_array(size_t i, const at::Tensor& tensor) {
  auto* array = new (arrays_ + array_count_++ * sizeof(ArrayArgument)) ArrayArgument(array_of(i, tensor));
  detail::key_of_array(key_.words, *array);
  key_.note(has_far_elements(*array) ? CallKey::far_array : CallKey::near_array);
  tensors_[passed_] = &tensor;
  owner_[passed_] = static_cast<uint8_t>(i);
  refs_[passed_++] = *array;
}
ScalarArgument Call::integer(size_t i, PyObject* value, char kind) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  const bool wide = kind == wide_integer;
  if (overflow || (!wide && number != static_cast<int32_t>(number))) {
    PyErr_Format(PyExc_OverflowError, "%s: %R is out of range of int%d%s", argument_text(i).c_str(), value,
                 wide ? 64 : 32, wide ? "" : "; annotate the parameter with ScalarInt64");
    throw PythonFailure();
  }
  return wide ? scalar_argument(static_cast<int64_t>(number)) : scalar_argument(static_cast<int>(number));
}
void Call::add_scalar(const ScalarArgument& scalar) {
  auto* kept = new (scalars_ + scalar_count_++ * sizeof(ScalarArgument)) ScalarArgument(scalar);
  key_.words.add(static_cast<uint64_t>(scalar.dtype));
  key_.note(CallKey::scalar_value);
  refs_[passed_++] = *kept;
}
// Small integers are their own word; Python numbers all other values.
void Call::add_constant(size_t i) {
  PyObject* value = given_[i];
  key_.note(CallKey::constant_value);
  int overflow = 1;
  if (PyLong_CheckExact(value)) {
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow && number >= 0) return key_.words.add(static_cast<uint64_t>(number));
  }
  const Owned number(PyLong_FromSize_t(i));
  const Owned word(PyObject_CallMethodObjArgs(self_, constant_name, number.get(), value, nullptr));
  if (!word) throw PythonFailure();
  key_.words.add(~PyLong_AsUnsignedLongLong(word.get()));
}
Owned described(BuiltFunction& built, Tracer& tracer, const ArgumentRef& argument) {
  Value* value = argument.array ? detail::add_array_parameter(tracer, *argument.array)
                                : detail::add_scalar_parameter(tracer, argument.scalar->dtype);
  const std::string dtype(info(value->type.dtype).name);
  return Owned(argument.array ? Py_BuildValue("(nsii)", built.number_of(value), dtype.c_str(),
                                              value->type.array_rank, has_far_elements(*argument.array))
                              : Py_BuildValue("(ns())", built.number_of(value), dtype.c_str()));
}
void translate(PyObject* kernel, const BuiltFunction& built, const Owned& numbers, const Owned& values,
               const Owned& generation) {
  if (!numbers || !values || !generation) throw PythonFailure();
  const Owned done(PyObject_CallMethodObjArgs(kernel, translate_name, built.object(), numbers.get(),
                                              values.get(), generation.get(), nullptr));
  if (!done) throw PythonFailure();
}
void Call::translate(Tracer& tracer) const {
  BuiltFunction built(tracer.function(), tracer.block());
  const Owned numbers(PyList_New(0)), values(PyTuple_New(static_cast<Py_ssize_t>(count_)));
  if (!built.object() || !numbers || !values) throw PythonFailure();
  size_t next = 0;
  auto structure = structures_.begin();
  for (size_t i = 0; i < count_; ++i) {
    PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), Py_NewRef(given_[i]));
    Owned number;
    if (structure != structures_.end() && structure->argument == i) {
      const Owned leaves(PyList_New(0));
      for (size_t k = 0; leaves && k < structure->count; ++k)
        if (const Owned leaf = described(built, tracer, refs_[next++]);
            !leaf || PyList_Append(leaves.get(), leaf.get()) < 0)
          throw PythonFailure();
      number.reset(leaves ? Py_BuildValue("[OO]", structure->word.get(), leaves.get()) : nullptr);
      ++structure;
    } else {
      const bool known = kernel_.kinds[i] == constant || given_[i] == Py_None;
      number = known ? Owned(Py_NewRef(Py_None)) : described(built, tracer, refs_[next++]);
    }
    if (!number || PyList_Append(numbers.get(), number.get()) < 0) throw PythonFailure();
  }
  const Owned generation(traced_ ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(generation_));
  python::translate(self_, built, numbers, values, generation);
}

Owned Call::passed() const {
  Owned list(PyList_New(0));
  const auto add = [&](PyObject* value, size_t i) {
    const Owned row(Py_BuildValue("(On)", value, static_cast<Py_ssize_t>(i)));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) throw PythonFailure();
  };
  auto structure = structures_.begin();
  for (size_t i = 0; i < count_; ++i)
    if (structure != structures_.end() && structure->argument == i) {
      for (size_t k = 0; k < structure->count; ++k)
        add(PyTuple_GET_ITEM(structure->leaves.get(), static_cast<Py_ssize_t>(k)), i);
      ++structure;
    } else if (kernel_.kinds[i] != constant && given_[i] != Py_None) {
      add(given_[i], i);
    }
  return list;
}

int make_call_names() {
  for (const auto& [name, text] : {std::pair{&flatten_name, "_flatten"},
                                   {&constant_name, "_constant"},
                                   {&translate_name, "_translate"},
                                   {&signature_name, "_signature"},
                                   {&parameters_name, "parameters"}})
    if (!(*name = PyUnicode_InternFromString(text))) return -1;
  return 0;
}

}  // namespace tile::python
