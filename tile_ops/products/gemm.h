// Matrix products with batch axes, broadcasting, sums over axes and an epilogue: what matmul and its
// gradients launch.
#pragma once
#include "../common/activation.h"
#include "tile/rows.h"

namespace tile {

// A second product in the same launch: the activated one is multiplied by it, or it is added to the first.
enum class Second { none, factor, summand };

struct Epilogue {
  at::Tensor bias = {}, residual = {};  // broadcast to the result; undefined: none
  double alpha = 1;
  Activation activation = Activation::none;
  at::Tensor pre = {};      // if defined: what enters the activation is written here
  bool accumulate = false;  // adds to the contents of out, which no other operand may be
  // A second matrix of y's shape, which has no leading axes then, and what x @ other is for. As a factor it
  // is written to other_pre, where that is defined. As a summand x is [2, ..., m, k], and x[1] what is
  // multiplied.
  at::Tensor other = {};
  Second second = Second::none;
  at::Tensor other_pre = {};
};

// out = activation(alpha * (x @ y) + bias) + residual, where x is [..., m, k], y [..., k, n]
// and out [..., m, n]; leading axes broadcast. An axis that is 1 in out but not in x @ y is summed, in one
// order whatever the threads.
void multiply(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, const Epilogue& epilogue = {});

// The sum of a tensor over the axes that are 1 in out, or missing in front of it; accumulate: as Epilogue's.
void sum_to(const at::Tensor& tensor, const at::Tensor& out, bool accumulate = false);

}  // namespace tile
