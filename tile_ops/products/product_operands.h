// Parts that the operators of one product share: operands as matrices, the result's extents, and vmap.
#pragma once
#include "../common/arguments.h"

namespace tile {

struct ProductOperands {
  const at::Tensor &input, &other;
};
using ProductSizes = std::vector<c10::SymInt>;

// Returns the result's extents; errors where the operands do not multiply.
ProductSizes product_sizes(const at::Tensor& input, const at::Tensor& other);
// An error where a tensor that is given is no float or does not broadcast to the product.
void require_broadcasts(const char* name, const std::optional<at::Tensor>& tensor, const ProductSizes& sizes);
// The same for a tensor of any dtype.
void require_fits(const std::string& name, const at::Tensor& tensor, const ProductSizes& sizes);

inline at::Tensor defined(const std::optional<at::Tensor>& tensor) { return tensor ? *tensor : at::Tensor(); }
inline at::Tensor transposed(const at::Tensor& matrix) { return matrix.transpose(-2, -1); }

// Vectors as matrices of one row or one column; what has the result's extents, or broadcasts to them, gets
// these axes too.
struct Matrices {
  bool vector_input, vector_other;
  Matrices(const at::Tensor& input, const at::Tensor& other)
      : vector_input(input.dim() == 1), vector_other(other.dim() == 1) {}
  at::Tensor input(const at::Tensor& tensor) const { return vector_input ? tensor.unsqueeze(0) : tensor; }
  at::Tensor other(const at::Tensor& tensor) const { return vector_other ? tensor.unsqueeze(-1) : tensor; }
  at::Tensor out(at::Tensor tensor) const {
    if (!tensor.defined()) return tensor;
    if (vector_other) tensor = tensor.unsqueeze(-1);
    if (vector_input && tensor.dim() > 0) tensor = tensor.unsqueeze(-2);
    return tensor;
  }
};

// vmap: the batch becomes the first batch axis of every tensor; ranks are made equal after it. `like`: the
// argument whose rank a result has; empty: the product's.
VmapCall::Results batched_product(VmapCall& call, const std::vector<std::string>& tensors,
                                  const std::vector<std::string>& like);

}  // namespace tile
