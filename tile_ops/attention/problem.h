// A call of attention: what is asked for, what is accepted, and the launches of its kernels. Queries, keys
// and values are [batch, heads, length, head dim], or packed.
#pragma once
#include <algorithm>
#include <cmath>

#include "kernels.h"
#include "tile/op.h"

namespace tile::attention {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// Arguments of the operators, in the order of their schemas.
struct Operands {
  const Tensor &query, &key, &value;
};
struct GradientsOfResults {
  const OptionalTensor &grad_out, &grad_lse;
};
// Tensors that a gradient gets from the forward, with the extents of out or a number a row.
struct Saved {
  const Tensor &out, &top, &weight, &residual;
};
struct Results {
  const Tensor &out, &lse;
  const OptionalTensor &top, &weight, &residual;
};
struct Request {
  bool is_causal;
  const std::string& causal_align;
  std::optional<double> scale;
  at::IntArrayRef window;  // keys before and after a query's own position; -1: all
  double softcap;          // 0: none
  const OptionalTensor& alibi_slopes;
  const OptionalTensor& sinks;
  double dropout_p;
  const OptionalTensor& seed;
};

using HostText = ScoreTextOf<Tensor, int>;

// Packed samples of different lengths: where each begins, [samples + 1], and how long the
// longest are.
struct Packed {
  const Tensor &query_starts, &key_starts;
  int64_t rows, keys;
};

constexpr int64_t most_depth = 256;
// Returns the default scale. For a head dim of 0 it stays finite: scores are then 0, which an infinite scale
// would turn into NaN.
inline double usual_scale(int64_t depth) {
  return 1 / std::sqrt(static_cast<double>(std::max<int64_t>(depth, 1)));
}

// ValueError, TypeError or NotImplementedError where a call is not accepted. batch: the number of samples.
void check_tensor(const Tensor& tensor, const char* name, int64_t rank, const char* shape);
void check_dtypes(const Operands& of);
void check_inputs(const Operands& of, const OptionalTensor& bias);
void check_integers(const Tensor& tensor, const char* name);
void check_heads(const c10::SymInt& heads, const c10::SymInt& key_heads);
void check_depth(const c10::SymInt& depth);
void check_saved(const Tensor& query, std::vector<c10::SymInt> out_sizes, c10::SymIntArrayRef rows,
                 const Saved& saved);
void check_gradient(const OptionalTensor& grad, const Tensor& of, const char* name);
void check_request(const Request& request, const c10::SymInt& batch, const c10::SymInt& heads,
                   at::ScalarType dtype);

// Dense, its dimensions in memory as those of `like` are.
Tensor empty_in_order(const Tensor& like, const std::vector<c10::SymInt>& sizes);
inline Tensor empty_in_order(const Tensor& like) { return empty_in_order(like, like.sym_sizes().vec()); }
inline at::TensorOptions sum_options(const Tensor& query) {
  return query.options().dtype(query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

// Returns the dtype in which products read computed tiles: most CPUs widen 16-bit floats, and rounding to
// them would only lose.
DType operand_dtype(const Tensor& query);

// Packed tensors are [1, heads, all, head dim] here. Saved results that nobody asked for are written all the
// same, so that there is one kernel; but not the large one.
void run_forward(const Operands& operands, const OptionalTensor& bias, const Request& request,
                 const Results& results, const Packed* packed = nullptr, const HostText* text = nullptr);

// Gradients that are not defined are not wanted.
struct Backward {
  GradientsOfResults incoming;
  Operands operands;
  const OptionalTensor& bias;
  Saved saved;
  Operands grads;
  const Tensor &grad_bias, &grad_sinks;
  at::TensorList grad_operands = {};  // of a text's last operands
};
void run_backward(const Backward& call, const Request& request, const Packed* packed = nullptr,
                  const HostText* text = nullptr);

}  // namespace tile::attention
