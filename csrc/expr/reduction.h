// Reduction operators, made of a function of each element, an associative combination, and a function of the
// total.
#pragma once
#include "expr/expression.h"
#include "prims/reduce.h"

namespace tile {

// Floats narrower than float32 are computed in float32. Sums and products of integers and bool are int64.
struct Reduction {
  enum class Kind { sum, prod, max, min, own };
  // Maps the tensors' elements to the values that are combined: one tile, or several. Empty: the elements of
  // the single tensor.
  Expression map;
  Kind kind = Kind::sum;
  // For Kind::own. It must be associative and commutative, because the order of elements is unspecified.
  CombineTiles combine;
  // The identity of the combination, one for each tile of map; for Kind::own only.
  std::vector<double> identity;
  // Maps the totals and the number of elements (a scalar of the dtype of the computation) to the results.
  // Empty: the totals are the results.
  std::function<std::vector<Tile>(std::vector<Tile> totals, Tile count)> finish;
  size_t totals = 1;          // how many tiles finish takes
  ExpressionVersion version;  // covers the three functions
};

// Defines "ns::name(Tensor x) -> Tensor" and adds the arguments int[]? dim=None, bool keepdim=False; None
// reduces all axes. Tensors are broadcast and promoted. A sum has a gradient, the operator ns::name_backward.
Operator define_reduction(const std::string& schema, Reduction parts, Location where, bool replace);
inline Operator reduction(const std::string& schema, Reduction parts, Location where = Location::current()) {
  return define_reduction(schema, std::move(parts), where, false);
}

// Sums `whole` over the axes that `out` lacks or in which it has extent 1.
void sum_into(const at::Tensor& whole, const at::Tensor& out);

}  // namespace tile
