// One step of AdamW: what a launch is given, and the two ways to launch.
#pragma once
#include <array>
#include <vector>

#include "../common/arguments.h"
#include "tile/rows.h"

namespace tile::adamw {

struct Options {
  double lr, beta1, beta2, eps, weight_decay;
  bool maximize;
  const std::optional<at::Tensor>&lr_tensor, &grad_scale, &found_inf;
};

// One parameter and what belongs to it, each as one axis.
struct Job {
  // params, grads, exp_avgs, exp_avg_sqs and, where AMSGrad is wanted, max_exp_avg_sqs.
  std::array<ArrayArgument, 5> arrays;
  ArrayArgument step;
  int64_t elements = 0;
};

// A tensor of one element.
inline ArrayArgument number(const at::Tensor& tensor) {
  ArrayArgument array = strided(tensor, {1}, {1});
  array.scalars = true;
  return array;
}

// On a GPU: a launch per 16 jobs with equal dtypes and equal facts about their memory in the key.
void launch_groups(const std::vector<Job>& jobs, bool amsgrad, const Options& options);
// On a CPU: one launch.
void launch_table(const std::vector<Job>& jobs, bool amsgrad, const Options& options);

// The scalars of the update, in the dtype that it is computed in.
struct Coefficients {
  Tile along;    // minus the step size: -lr / (1 - beta1^step)
  Tile down;     // 1 / sqrt(1 - beta2^step)
  Tile decay;    // -lr * weight_decay
  Tile change1;  // 1 - beta1
  Tile keep2, change2, eps;
  Tile grad_factor;  // the sign and the scale of the gradients
};

// Tile k of `size` elements of each array.
inline void update(Array param, Array grad, Array exp_avg, Array exp_avg_sq,
                   std::optional<Array> max_exp_avg_sq, const Operand& k, int size, const Coefficients& c) {
  const auto view = [&](Array array) { return array.tiled_view({size}); };
  const auto load = [&](Array array) { return view(array).load({k}).astype(compute_dtype(param.dtype())); };
  Tile g = load(grad) * c.grad_factor, m = load(exp_avg), v = load(exp_avg_sq), p = load(param);
  m = fma(g - m, c.change1, m);
  v = fma(g * g, c.change2, v * c.keep2);
  Tile largest = max_exp_avg_sq ? maximum(load(*max_exp_avg_sq), v, propagate_nan) : v;
  // Stored first, so that everything is loaded before anything is stored.
  view(param).store({k}, fma(m / fma(sqrt(largest), c.down, c.eps), c.along, fma(p, c.decay, p)));
  view(exp_avg).store({k}, m);
  view(exp_avg_sq).store({k}, v);
  if (max_exp_avg_sq) view(*max_exp_avg_sq).store({k}, largest);
}

}  // namespace tile::adamw
