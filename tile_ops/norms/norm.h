// Checks of all norms; tensors as rows and the gradient of layer_norm and rms_norm.
#pragma once
#include <optional>
#include <utility>

#include "tile/rows.h"

namespace tile {

void check_norm_input(const at::Tensor& input, c10::SymIntArrayRef normalized_shape);
// Sizes are `sizes`, which `what` names. Dtypes: the input's, or Float where that has 16 bits; both the same.
void check_parameters(const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                      const at::Tensor& input, c10::SymIntArrayRef sizes, const char* what);
void check_sizes(const char* name, const at::Tensor& parameter, c10::SymIntArrayRef sizes, const char* what);
// Allocates one where wanted; undefined otherwise.
at::Tensor parameter_gradient(bool wanted, const std::optional<at::Tensor>& parameter);
void check_floating(const char* name, const at::Tensor& tensor);

// One value a row, with the input's rank; `wide`: float64 whatever the input.
at::Tensor empty_statistics(const at::Tensor& input, size_t axes, bool wide = false);
// Check a gradient's arguments: such statistics, and gradients of the shape and dtype of the input.
void check_statistics(const char* name, const at::Tensor& saved, const at::Tensor& input, size_t axes,
                      bool wide = false);
void check_norm_gradient(const char* name, const at::Tensor& grad, const at::Tensor& input);

// A weight or bias as one axis.
std::optional<at::Tensor> flat_parameter(const std::optional<at::Tensor>& parameter);

using TensorPointers = c10::SmallVector<const at::Tensor*, 4>;
// The last `axes` axes of tensors, the first `results` of them written and the others read, as columns; calls
// f(views). Where they are no single axis, f works on contiguous copies.
template <class F>
void on_norm_rows(size_t axes, TensorPointers tensors, const TensorPointers& statistics, F f,
                  size_t results = 1) {
  const uint32_t reduced = ((1u << axes) - 1) << (tensors[0]->dim() - axes);
  const auto views = [&] {
    c10::SmallVector<ArrayArgument, 4> arrays;
    for (const TensorPointers* list : {&std::as_const(tensors), &statistics})
      for (const at::Tensor* tensor : *list) arrays.push_back(to_array_argument(*tensor));
    return Rows(arrays, reduced);
  };
  Rows rows = views();
  if (rows.empty()) return;
  const TensorPointers given(tensors.begin(), tensors.begin() + results);
  std::vector<at::Tensor> copies;
  if (!rows.flat()) {
    copies.reserve(tensors.size());
    for (const at::Tensor*& tensor : tensors) {
      const bool written = copies.size() < results;
      copies.push_back(written ? at::empty_like(*tensor, at::MemoryFormat::Contiguous)
                               : tensor->contiguous());
      tensor = &copies.back();
    }
    rows = views();
  }
  f(rows);
  for (size_t i = 0; i < results && !copies.empty(); ++i) given[i]->copy_(copies[i]);
}

// Tensors for the gradients of a norm; rms_norm has no mean. grad_input is that of the norm and `grad_added`.
struct NormBackward {
  at::Tensor grad_out, input;
  size_t axes;
  std::optional<at::Tensor> weight, mean;
  at::Tensor rstd;
  std::optional<at::Tensor> grad_input, grad_weight, grad_bias, grad_added = {};
};
void norm_backward(const NormBackward& call);

// Kernel side: columns of a weight or bias, as a row of the tile (a column where transposed).
inline Tile row_vector(const Array& vector, const Operand& column, int columns, int axis, DType dtype) {
  Tile v = vector.tiled_view({columns}).load({column}).astype(dtype);
  return axis ? v.expand_dims(0) : v.expand_dims(1);
}

}  // namespace tile
