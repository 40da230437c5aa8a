// Reduction operators: a function of each element, an associative function of two, and one of the total.
#pragma once
#include "expr/expression.h"
#include "prims/reduce.h"

namespace tile {

// Floats shorter than float32 are computed in it. Sums and products of integers and bool are int64.
struct Reduction {
  enum class Kind { sum, prod, max, min, own };
  // From the tensors' elements to what is combined: a tile, or several. None: the one tensor's elements.
  Expression map;
  Kind kind = Kind::sum;
  // For Kind::own. It is associative and commutative, since the order of elements is unspecified.
  CombineTiles combine;
  std::vector<double> identity;  // what changes nothing, one a tile of map; Kind::own alone
  // From the totals and the number of elements (a scalar of the dtype of computation) to the results. None:
  // the totals are the results.
  std::function<std::vector<Tile>(std::vector<Tile> totals, Tile count)> finish;
  size_t totals = 1;          // how many tiles finish takes
  ExpressionVersion version;  // covers the three functions
};

// "ns::name(Tensor x) -> Tensor": the arguments int[]? dim=None, bool keepdim=False are added; None reduces
// all axes. Tensors are broadcast and promoted. A sum has a gradient, the operator ns::name_backward.
Operator define_reduction(const std::string& schema, Reduction parts, Location where, bool replace);
inline Operator reduction(const std::string& schema, Reduction parts, Location where = Location::current()) {
  return define_reduction(schema, std::move(parts), where, false);
}

// Sums `whole` over the axes that `out` lacks, or has extent 1 in.
void sum_into(const at::Tensor& whole, const at::Tensor& out);

}  // namespace tile
