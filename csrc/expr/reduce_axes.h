// The kernel of reductions over any axes of arrays with any strides, in as few passes as the strides allow.
#pragma once
#include "expr/elements.h"
#include "expr/reduction.h"

namespace tile {

// The traced functions of one pass over elements and totals.
struct ReductionBody {
  // Makes parameters of the numbers. It is called once, before the others.
  std::function<void(Tracer&)> begin;
  // Maps the arrays' elements to accumulators; called in the first pass only.
  std::function<std::vector<Tile>(const std::vector<Tile>& elements)> map;
  CombineTiles combine;
  Reduction::Kind kind = Reduction::Kind::own;
  std::vector<double> identity;
  std::vector<DType> accumulators;
  // Maps totals to results; called in the last pass only. `count` is the number of elements.
  std::function<std::vector<Tile>(const std::vector<Tile>& totals, const Tile& count)> finish;
};

// The arguments of a launch besides its arrays: words of its key, and numbers.
struct ReductionLaunch {
  ExpressionKernel& kernel;
  const ReductionBody& body;
  std::function<void(LaunchKey&)> key;
  std::function<void(std::vector<ArgumentRef>&)> pass;
};

// elements: arrays of one shape. results: the results of body.finish. totals: arrays for the totals. The
// extents of results and totals are 1 at the axes of `reduced`. like: partial results are allocated like this
// tensor.
void reduce_axes(const ReductionLaunch& launch, const ElementArrays& elements, uint32_t reduced,
                 const ElementArrays& results, const ElementArrays& totals, const at::Tensor& like);

// Combines the accumulators elementwise.
std::vector<Tile> combined(const ReductionBody& body, const std::vector<Tile>& a, const std::vector<Tile>& b);

// Returns a tile of the combination's identity value.
Tile identity_tile(const ReductionBody& body, size_t k, const Shape& shape);

}  // namespace tile
