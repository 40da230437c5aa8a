// Checks of operators' arguments and the texts of their errors; views of tensors with other strides.
#pragma once
#include <c10/core/ScalarType.h>

#include "tile/op.h"

namespace tile {

inline std::string dtype_name(at::ScalarType dtype) { return std::string(c10::getDtypeNames(dtype).first); }

inline void require_floating(std::string_view argument, at::ScalarType dtype) {
  if (dtype != at::kFloat && dtype != at::kDouble && dtype != at::kHalf && dtype != at::kBFloat16)
    fail(ErrorKind::type, argument, " is ", dtype_name(dtype),
         "; it must be float16, bfloat16, float32 or float64");
}
inline void require_floating(std::string_view argument, const at::Tensor& tensor) {
  require_floating(argument, tensor.scalar_type());
}

inline void require_same_dtype(std::string_view first, const at::Tensor& x, std::string_view second,
                               const at::Tensor& y) {
  if (x.scalar_type() != y.scalar_type())
    fail(ErrorKind::type, first, " is ", dtype_name(x.scalar_type()), " and ", second, " is ",
         dtype_name(y.scalar_type()), "; convert one with .to()");
}

// An error where such a view leaves the tensor's memory.
void require_memory(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset);
// as_strided without the price of a tensor: `offset` elements after the first.
inline ArrayArgument strided(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides,
                             int64_t offset = 0) {
  ArrayArgument array = at::to_array_argument(tensor);
  array.data = static_cast<char*>(array.data) + offset * static_cast<int64_t>(tensor.element_size());
  require_memory(tensor, sizes, strides, offset);
  array.rank = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), array.sizes.begin());
  std::copy(strides.begin(), strides.end(), array.strides.begin());
  return array;
}

// Checks a tensor that a gradient takes besides the forward's arguments. `what`: "that of the result".
void require_agrees(std::string_view argument, const at::Tensor& tensor, c10::SymIntArrayRef sizes,
                    at::ScalarType dtype, std::string_view what);
inline constexpr std::string_view of_result = "that of the result", as_saved = "as the forward saves it",
                                  of_gradient = "that of the gradient";

inline void require_index_dtype(std::string_view argument, const at::Tensor& tensor) {
  if (tensor.scalar_type() != at::kLong && tensor.scalar_type() != at::kInt)
    fail(ErrorKind::type, argument, " is ", dtype_name(tensor.scalar_type()), "; it must be int64 or int32");
}

// Indices of one of `size` things; `there_are` and `things` say of what: "there are 4 classes".
struct IndexRange {
  int64_t size;
  const char *there_are, *things;
  const char* also_name = nullptr;  // a number that means no index
  int64_t also = 0;
};
// An error that names the index and the value; only on the CPU, which can read them.
void require_indices(const char* name, const at::Tensor& indices, const IndexRange& range);

}  // namespace tile
