// Implements described calls: layouts, and what of their arrays needs no tensor but its kind.
#include "torch/described_call.h"

#include "torch/args.h"

namespace tile {

using Number = CallLayout::Number;

std::string LayoutBuilder::entry() const { return str(prefix_, "entry ", layout_.parameters.size(), ": "); }

Number LayoutBuilder::run_time(std::string_view text, bool floating) {
  int64_t position = 0;
  size_t digit = 1;
  if (text.starts_with('n'))
    for (; digit < text.size() && text[digit] >= '0' && text[digit] <= '9' && position < most_positions;
         ++digit)
      position = position * 10 + (text[digit] - '0');
  if (!text.starts_with('n') || text.size() == 1 || digit < text.size() || position >= most_positions)
    fail(ErrorKind::value, prefix_, "'", text, "' is no run-time number; write n0, n1, ...");
  const auto place = static_cast<size_t>(position);
  if (place >= floats_.size()) floats_.resize(place + 1);
  if (floats_[place].value_or(floating) != floating)
    fail(ErrorKind::value, prefix_, text, " is a float in one entry and an integer in another");
  floats_[place] = floating;
  return {0, static_cast<int>(position)};
}

void LayoutBuilder::add_array(int64_t tensor, Number offset, const std::vector<Number>& sizes,
                              const std::vector<Number>& strides) {
  if (tensor < 0 || tensor >= most_positions)
    fail(ErrorKind::value, entry(), tensor, " is no index of a tensor");
  if (sizes.size() != strides.size())
    fail(ErrorKind::value, entry(), "sizes and strides are tuples of one length");
  if (sizes.size() > max_array_rank)
    fail(ErrorKind::value, entry(), "the array has rank ", sizes.size(), "; the most is ", max_array_rank);
  CallLayout::Array array;
  array.tensor = static_cast<size_t>(tensor);
  array.offset = offset;
  array.argument.rank = static_cast<int>(sizes.size());
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    array.sizes[axis] = sizes[axis];
    array.strides[axis] = strides[axis];
    array.known = array.known && sizes[axis].position < 0 && strides[axis].position < 0;
    array.argument.sizes[axis] = sizes[axis].value;
    array.argument.strides[axis] = strides[axis].value;
  }
  layout_.tensors = std::max(layout_.tensors, array.tensor + 1);
  layout_.parameters.push_back({true, layout_.arrays.size()});
  layout_.arrays.push_back(std::move(array));
}

void LayoutBuilder::add_scalar(DType dtype, Number value) {
  layout_.parameters.push_back({false, layout_.scalars.size()});
  layout_.scalars.push_back({dtype, value});
}

void LayoutBuilder::finish() {
  for (size_t i = 0; i < floats_.size(); ++i)
    if (!floats_[i])
      fail(ErrorKind::value, prefix_, "nothing in the layout refers to the run-time number n", i,
           "; number them from 0 without gaps");
    else
      layout_.floats.push_back(*floats_[i]);
  std::vector<bool> used(layout_.tensors);
  for (const CallLayout::Array& array : layout_.arrays) used[array.tensor] = true;
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i])
      fail(ErrorKind::value, prefix_, "nothing in the layout refers to tensor ", i,
           "; number them from 0 without gaps");
}

std::string DescribedArguments::prefix() const { return str(what_, name_, ": "); }

void DescribedArguments::describe(CallLayout::Array& array, CallLayout::Kind kind) const {
  ArrayArgument& argument = array.argument;
  array.kind.reset();  // in case of an error
  argument.data = nullptr;
  try {
    argument.dtype = to_dtype(kind.dtype);
  } catch (const Error& error) {
    fail(error.kind(), prefix(), "argument ", array.tensor, ": ", error.what());
  }
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

void DescribedArguments::fail_bounds(const CallLayout::Array& array) const {
  std::string sizes, strides;
  for (size_t axis = 0; axis < static_cast<size_t>(array.argument.rank); ++axis) {
    sizes += str(axis ? ", " : "", array.argument.sizes[axis]);
    strides += str(axis ? ", " : "", array.argument.strides[axis]);
  }
  fail(ErrorKind::value, prefix(), "an array of sizes (", sizes, "), strides (", strides, ") and offset ",
       value(array.offset), " does not lie within the memory of tensor ", array.tensor);
}

// Returns the address of a tensor that stands for one on a GPU while kernels are inspected. Raises the error
// of all other tensors that are not plain.
char* DescribedArguments::data_of_other(const at::Tensor& tensor, size_t i) const {
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

void DescribedArguments::add(const CallLayout::Scalar& scalar) {
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

}  // namespace tile
