// Code shared by the gradients of elementwise operators and of reductions.
#pragma once
#include "expr/elements.h"
#include "expr/expression.h"

namespace tile {

// Defines ns::name_backward. Its arguments are the incoming gradients, the operator's arguments and
// `between`; its results are the gradients of the floating tensors that the mask selects. run: fills the
// results, given the boxed values.
void define_gradient(Operator& forward, const ExpressionSchema& schema,
                     const std::vector<std::string>& between, std::function<void(c10::IValue* values)> run,
                     Location where, bool replace);

// A launch of an elementwise kernel on arrays of one shape, results first.
struct ElementLaunch {
  ExpressionKernel& kernel;
  std::function<void(LaunchKey&)> key;  // adds to the key what arrays and tile do not determine
  std::function<void(std::vector<ArgumentRef>&)> pass;  // adds arguments after the arrays
  std::function<void(Tracer&, const std::vector<Array>&, ElementTile)> body;
};
void launch_elements(const ElementLaunch& launch, const ElementArrays& arrays);

// The tensors whose gradient is wanted, the results that have an incoming gradient, and the gradients before
// they are summed over broadcast axes.
class ElementGradients {
 public:
  // gradients: one for each tensor. arriving: one for each result, undefined if there is none.
  ElementGradients(std::vector<at::Tensor> tensors, const c10::IValue* gradients, const c10::IValue* arriving,
                   size_t results, const std::vector<int64_t>& shape, DType compute);
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  const std::vector<size_t>& wanted() const { return wanted_; }
  const std::vector<size_t>& incoming() const { return incoming_; }
  ElementArrays arrays() const;  // the arrays to fill, in the order of `wanted`
  uint64_t key() const;
  // In a trace, stores the derivatives of the wanted tensors to the first arrays, or 0 if there is no
  // derivative.
  void store(const std::vector<Array>& arrays, ElementTile tile,
             const std::vector<std::optional<Tile>>& derivatives) const;
  void sum_up() const;

 private:
  std::vector<at::Tensor> tensors_, whole_, gradients_;
  std::vector<size_t> wanted_, incoming_;
  DType compute_;
};

}  // namespace tile
