// Products in the record of an operator's run, whose gradients are products themselves.
#pragma once
#include "gemm.h"

namespace tile {

// Stands in for multiply() while launches are recorded. Throws an error for what a gradient's product has
// not: an activation, an expression, a factor, or a sum in `out`.
void record_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out,
                    const Epilogue& epilogue);

// Returns the saved numbers `pre` = alpha * (x @ y) + bias as a step of the record, in which they depend on
// what the product reads. Nothing is computed again.
at::Tensor product_again(const at::Tensor& pre, const at::Tensor& x, const at::Tensor& y,
                         const at::Tensor& bias = {}, double alpha = 1);

}  // namespace tile
