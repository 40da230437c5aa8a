// The kernel of reductions over any axes of arrays of any strides, in as few passes as these allow.
#pragma once
#include "expr/elements.h"
#include "expr/reduction.h"

namespace tile {

// The traced functions of one pass over elements and totals.
struct ReductionBody {
  // Makes parameters of the numbers that are passed; called first, and once.
  std::function<void(Tracer&)> begin;
  // From the arrays' elements to accumulators: first pass alone.
  std::function<std::vector<Tile>(const std::vector<Tile>& elements)> map;
  CombineTiles combine;
  Reduction::Kind kind = Reduction::Kind::own;
  std::vector<double> identity;
  std::vector<DType> accumulators;
  // From totals to results: last pass alone. `count`: of elements.
  std::function<std::vector<Tile>(const std::vector<Tile>& totals, const Tile& count)> finish;
};

// The arguments of a launch besides arrays: words of its key, and numbers.
struct ReductionLaunch {
  ExpressionKernel& kernel;
  const ReductionBody& body;
  std::function<void(LaunchKey&)> key;
  std::function<void(std::vector<ArgumentRef>&)> pass;
};

// elements: arrays of one shape. results: those of body.finish, then for each `totals` an array; their extent
// is 1 at the axes of `reduced`. like: makes memory.
void reduce_axes(const ReductionLaunch& launch, const ElementArrays& elements, uint32_t reduced,
                 const ElementArrays& results, const ElementArrays& totals, const at::Tensor& like);

// The accumulators' combination, elementwise.
std::vector<Tile> combined(const ReductionBody& body, const std::vector<Tile>& a, const std::vector<Tile>& b);

// The constant that changes nothing.
Tile identity_tile(const ReductionBody& body, size_t k, const Shape& shape);

}  // namespace tile
