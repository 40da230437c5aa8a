// Matrix products with batch axes, broadcasting, sums over axes and an epilogue: what matmul and its
// gradients launch.
#pragma once
#include <array>
#include <tuple>

#include "../common/activation.h"
#include "tile/expression_text.h"
#include "tile/rows.h"

namespace tile {

// A second product in the same launch: the activated one is multiplied by it, or it is added to the first.
enum class Second { none, factor, summand };

// A text that ends the kernel, over "acc", which is the product, and up to six tensors and six numbers.
inline constexpr size_t most_operands = 6;
template <class T>
using UpToSix = std::tuple<std::optional<T>, std::optional<T>, std::optional<T>, std::optional<T>,
                           std::optional<T>, std::optional<T>>;
template <class Array, class Tile>
struct ExpressionOf {
  std::string text, names;  // of the tensors, then of the numbers, separated by commas
  UpToSix<Array> tensors;
  UpToSix<Tile> numbers;
};
struct ProductExpression {
  std::string text, names;
  std::array<at::Tensor, most_operands> tensors;  // broadcast to the result; undefined after the last one
  std::vector<double> numbers;
};
// Returns the parsed text of an epilogue, whose names are "acc" and then `names`, which commas separate. Each
// of them is used. A text is parsed once in a process.
std::shared_ptr<const ExpressionText> parsed_epilogue(const std::string& text, const std::string& names);
// Computes it in a trace, at tile (i, j) of batch (b0, b1); acc is a tile of the product.
Tile expressed(const ExpressionOf<Array, Tile>& of, const Tile& acc, const Tile& b0, const Tile& b1,
               const Tile& i, const Tile& j);

struct Epilogue {
  at::Tensor bias = {}, residual = {};  // broadcast to the result; undefined: none
  double alpha = 1;
  Activation activation = Activation::none;
  at::Tensor pre = {};  // if defined: what enters the activation is written here
  // Matrices that the copy unit of a GPU cannot read may be copied, in up to tuning::product_chunk_bytes.
  bool may_copy = false;
  bool exact = false;       // float32 is not rounded to tf32, even where torch allows it
  bool accumulate = false;  // adds to the contents of out, which no other operand may be
  // A second matrix of y's shape, which has no leading axes then, and what x @ other is for. As a factor it
  // is written to other_pre, where that is defined. As a summand x is [2, ..., m, k], and x[1] what is
  // multiplied.
  at::Tensor other = {};
  Second second = Second::none;
  at::Tensor other_pre = {};
  // Replaces the activation; its acc is what is written to `pre`.
  std::optional<ProductExpression> expression = {};
};

// out = activation(alpha * (x @ y) + bias) + residual, or with the expression in the place of the activation,
// where x is [..., m, k], y [..., k, n] and out [..., m, n]; leading axes broadcast. An axis that is 1 in out
// but not in x @ y is summed, in one order whatever the threads. On a GPU operands of float32 are rounded to
// tf32 where torch.get_float32_matmul_precision() allows it.
void multiply(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, const Epilogue& epilogue = {});

// The sum of a tensor over the axes that are 1 in out, or missing in front of it; accumulate: as Epilogue's.
void sum_to(const at::Tensor& tensor, const at::Tensor& out, bool accumulate = false);

}  // namespace tile
