// Checking the values of indices, and the memory of views.
#include "arguments.h"

namespace tile {
namespace {

template <class T>
void require(const char* name, const at::Tensor& indices, const IndexRange& range) {
  const T* values = indices.const_data_ptr<T>();
  for (int64_t i = 0; i < indices.numel(); ++i) {
    const int64_t value = values[i];
    if ((value >= 0 && value < range.size) || (range.also_name && value == range.also)) continue;
    std::string index;  // "[1, 2]", of a scalar nothing
    int64_t rest = i;
    for (int64_t axis = indices.dim(); axis-- > 0; rest /= indices.size(axis))
      index = std::to_string(rest % indices.size(axis)) + (index.empty() ? "]" : ", ") + index;
    if (!index.empty()) index = "[" + index;
    std::string also;
    if (range.also_name) also = std::string(", or ") + range.also_name + ", " + std::to_string(range.also);
    fail(ErrorKind::value, name, index, " is ", value, ", but ", range.there_are, " ", range.size, " ",
         range.things, "; it must be from 0 to ", range.size - 1, also);
  }
}

}  // namespace

void require_agrees(std::string_view argument, const at::Tensor& tensor, c10::SymIntArrayRef sizes,
                    at::ScalarType dtype, std::string_view what) {
  if (!tensor.sym_sizes().equals(sizes))
    fail(ErrorKind::value, argument, " has shape ", tensor.sym_sizes(), "; it must be ", sizes, ", ", what);
  if (tensor.scalar_type() != dtype)
    fail(ErrorKind::type, argument, " is ", dtype_name(tensor.scalar_type()), "; it must be ",
         dtype_name(dtype), ", ", what);
}

void require_memory(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides,
                    int64_t offset) {
  int64_t last = 0;  // of the view, from its first element
  bool fits = true;
  for (size_t i = 0; i < sizes.size() && fits; ++i) {
    if (sizes[i] == 0) return;
    int64_t step = 0;
    fits = sizes[i] > 0 && strides[i] >= 0 && !__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) &&
           !__builtin_add_overflow(last, step, &last);
  }
  const int64_t bytes = static_cast<int64_t>(tensor.element_size());
  const int64_t there = static_cast<int64_t>(tensor.storage().nbytes()) / bytes - tensor.storage_offset();
  if (!fits || offset < 0 || offset >= there || last >= there - offset)
    fail(ErrorKind::value, "a tensor of shape ", tensor.sizes(), " is too small to be read as ", sizes,
         " with strides ", strides, "; the arguments' shapes do not fit together");
}

void require_indices(const char* name, const at::Tensor& indices, const IndexRange& range) {
  if (!indices.is_cpu()) return;
  const at::Tensor dense = indices.contiguous();
  dense.scalar_type() == at::kInt ? require<int>(name, dense, range) : require<int64_t>(name, dense, range);
}

}  // namespace tile
