// The product of matrices with an epilogue that is written as text, for C++ programs.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace tile {

// The epilogue of a product: a text over "acc", which is the product in float32 (float64 for float64), and
// the names of tensors and numbers: {.text = "silu(acc + bias) * scale", .operands = {{"bias", b}}, .numbers
// =
// {{"scale", 0.5}}}. docs/operators.md has the language of the text, at tile::matmul_epilogue.
struct ProductEpilogue {
  std::string text;
  std::vector<std::pair<std::string, at::Tensor>> operands = {};  // at most six; they broadcast to the result
  std::vector<std::pair<std::string, double>> numbers = {};       // at most six
};

// Returns the text's value for input @ other, in the dtype of input, through torch's dispatcher.
at::Tensor matmul(const at::Tensor& input, const at::Tensor& other, const ProductEpilogue& epilogue);

}  // namespace tile
