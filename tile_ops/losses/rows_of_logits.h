// Launches of cross_entropy and linear_cross_entropy: the loss of each row of logits, its gradient, and the
// sum of the losses.
#pragma once
#include "tile/rows.h"

namespace tile {

struct LossOptions {
  int64_t ignore_index;
  double label_smoothing, z_loss;
};

// The options of both losses in the order of their schemas, and what their gradients are given of the
// forward.
struct LossRequest {
  int64_t ignore_index;
  const std::string& reduction;
  double label_smoothing, z_loss;
  LossOptions options() const { return {ignore_index, label_smoothing, z_loss}; }
};
struct SavedOfLoss {
  const at::Tensor& lse;
  const std::optional<at::Tensor>& divisors;
};

enum class LossReduction { none, mean, sum };
LossReduction parse_reduction(const std::string& reduction);
void check_loss_options(const LossRequest& request);
// Class indices of these sizes. `sizes_of`: whose, for the error.
void check_target(const at::Tensor& target, c10::SymIntArrayRef sizes, const char* sizes_of);
// log(sum(exp(x))) of each row, and what rounding it took off, where the input is float32: without that its
// gradient is less exact than torch's.
struct RowLse {
  std::optional<at::Tensor> lse, rest = {};
  template <class F>
  RowLse each(const F& f) const {
    const auto of = [&](const std::optional<at::Tensor>& t) {
      return t ? std::optional(f(*t)) : std::nullopt;
    };
    return {of(lse), of(rest)};
  }
};
// The two as one tensor that is saved: of float32 [target's sizes, 2], else the first alone.
at::Tensor empty_lse(const at::Tensor& input, const at::Tensor& target);
RowLse row_lse(const std::optional<at::Tensor>& saved, at::ScalarType input);
// Checks a gradient's arguments: grad_out, which has `dtype`, and the values that the forward saved.
void check_loss_gradient(const at::Tensor& grad_out, at::ScalarType dtype, at::ScalarType input,
                         const at::Tensor& target, const SavedOfLoss& saved, const std::string& reduction);
// On the CPU an index that is no class is an error; a GPU makes NaN of its row.
void check_classes(const at::Tensor& target, int64_t classes, int64_t ignore_index);

// Sums of losses as blocks leave them: [kinds, blocks].
struct LossParts {
  at::Tensor sums;
  int64_t used = 0;
};
inline int64_t loss_kinds(LossReduction reduction, bool weighted) {
  return reduction == LossReduction::sum ? 1 : weighted ? 4 : 2;
}
// The loss, and of a mean what it was divided by: the sum of weights, and the rows that count.
void add_up_losses(const LossParts& parts, const at::Tensor& out, const std::optional<at::Tensor>& divisors);

// Writes the number by which a mean without weights divides, before there are losses. target is [n].
void count_targets(const at::Tensor& target, int64_t ignore_index, const at::Tensor& divisors);

// Logits [n, classes, ...], or the part of them that begins at class `first` of `classes`.
struct Logits {
  at::Tensor logits, target;
  std::optional<at::Tensor> weight = {}, weight_sum = {};
  int64_t classes, first = 0;
};
// The sum of the weights of all classes, where smoothing needs it.
std::optional<at::Tensor> sum_of_weights(const std::optional<at::Tensor>& weight, const LossOptions& options);

// State of rows whose logits come in parts: [row_state, n].
inline constexpr int64_t row_state = 5;
// Writes what is there of loss and lse, which have the target's sizes, and to parts, which are made where
// they are undefined.
void loss_forward(const Logits& rows, const LossOptions& options, const std::optional<at::Tensor>& state,
                  const RowLse& saved, const std::optional<at::Tensor>& loss, LossParts* parts,
                  LossReduction reduction);
// grad_out has the target's sizes, or is one number. grad_logits may be the logits themselves.
void loss_backward(const Logits& rows, const LossOptions& options, const at::Tensor& grad_out,
                   const RowLse& saved, const std::optional<at::Tensor>& divisors,
                   const at::Tensor& grad_logits);

}  // namespace tile
