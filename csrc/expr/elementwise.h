// Elementwise operators of one expression: broadcasting, promotion, strides, and the gradient.
#pragma once
#include "expr/expression.h"

namespace tile {

// Defines an operator from an expression over scalars: "ns::name(Tensor x, Tensor y, float scale=1.0) ->
// Tensor". Tensors are broadcast and promoted as in torch; float16 and bfloat16 are computed in float32. A
// result has the promoted dtype, or the dtype of the expression if that differs (a comparison gives bool).
// The gradient, the operator ns::name_backward, uses the expression's derivative: prims/derivatives.h.
//
// const auto swish = elementwise("mine::swish(Tensor x, float beta=1.0) -> Tensor",
//                                [](Tile x, Tile beta) { return x * sigmoid(beta * x); });
Operator define_elementwise(const std::string& schema, Expression expression, Location where, bool replace,
                            ExpressionVersion version = {});
template <class F>
Operator elementwise(const std::string& schema, F function, Location where = Location::current()) {
  return define_elementwise(schema, expression(std::move(function)), where, false);
}

}  // namespace tile
