// Matrix products with batch axes, broadcasting, sums over axes and an epilogue: what matmul and its
// gradients launch.
#pragma once
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "../common/activation.h"
#include "tile/expression_text.h"
#include "tile/rows.h"

namespace tile {

// A second product in the same launch: the activated one is multiplied by it, or it is added to the first.
enum class Second { none, factor, summand };

// The parsed text that ends the kernel, a constant of it. Its names are "acc", which is the product, "acc2"
// if it has a second one, and those of tensors and of numbers.
struct EpilogueText {
  std::shared_ptr<const ExpressionText> parsed;
  const ExpressionText* operator->() const { return parsed.get(); }
};
// Each parsed text lives as long as the process.
inline void key_words(LaunchKey& key, const EpilogueText& text) {
  key.add(reinterpret_cast<uintptr_t>(text.parsed.get()));
}
struct EpilogueSource {
  const std::string &text, &names;  // commas separate the names
  // The text may have several results, and acc2. It need not use every tensor.
  bool several = false, second = false;
  uint64_t conditions = 0;  // bits of the names: tensors of bool
};
EpilogueText parsed_epilogue(const EpilogueSource& source);

// Where a tensor of a text is: the result of this number, whose memory it is, or elsewhere.
enum Place : int { elsewhere = -1 };
template <class Array, class Tile>
struct ExpressionOf {
  EpilogueText text;
  std::vector<Place> places;   // of all tensors
  std::vector<Array> tensors;  // those elsewhere
  std::vector<Tile> numbers;
  std::vector<Array> outs;  // of its results after the first
};
struct ProductExpression {
  EpilogueText text;
  std::vector<Place> places = {};
  std::vector<at::Tensor> tensors = {};  // broadcast to the result
  std::vector<double> numbers = {};
  std::vector<at::Tensor> outs = {};
};

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
  // multiplied. With an expression a factor is its acc2.
  at::Tensor other = {};
  Second second = Second::none;
  at::Tensor other_pre = {};
  // Replaces the activation; its acc is what is written to `pre`.
  std::optional<ProductExpression> expression = {};

  bool loads_results() const {
    return accumulate || (expression && std::any_of(expression->places.begin(), expression->places.end(),
                                                    [](Place place) { return place != elsewhere; }));
  }
};

// out = activation(alpha * (x @ y) + bias) + residual, or with the expression in the place of the activation,
// where x is [..., m, k], y [..., k, n] and out [..., m, n]; leading axes broadcast. An axis that is 1 in out
// but not in x @ y is summed, in one order whatever the threads. On a GPU operands of float32 are rounded to
// tf32 where torch.get_float32_matmul_precision() allows it.
void multiply(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, const Epilogue& epilogue = {});

// The sum of a tensor over the axes that are 1 in out, or missing in front of it; accumulate: as Epilogue's.
void sum_to(const at::Tensor& tensor, const at::Tensor& out, bool accumulate = false);

}  // namespace tile
