// Code shared by the kernels of a reduction operator and of its gradient.
#pragma once
#include "expr/expression_gradient.h"
#include "expr/reduction.h"

namespace tile {

class Tracer;

struct Reducer {
  static constexpr size_t own_arguments = 2;  // dim, keepdim
  using Kind = ExpressionSchema::Kind;
  Reducer(const std::string& text, Reduction of, Location where);

  const ExpressionSchema schema;
  const Reduction parts;
  ExpressionKernel forward, backward;

  struct Dtypes {
    std::vector<DType> accumulators;
    std::vector<at::ScalarType> results;
    DType compute;
  };

  std::vector<Tile> mapped(const ExpressionValues& values, const std::vector<Tile>& elements,
                           const std::vector<Tile>& numbers, DType compute) const;
  std::vector<Tile> finished(const std::vector<Tile>& totals, const Tile& count, DType compute) const;

  Dtypes dtypes(const c10::IValue* values);

  // Returns the reduced axes of the common shape, as bits.
  uint32_t axes(const c10::IValue* values, int64_t rank) const;
  bool keeps(const c10::IValue* values) const { return values[schema.arguments.size() + 1].toBool(); }
  void allocate(const c10::IValue* values, BoxedValues& results, bool totals);
  // Returns a result as an array of the common rank, with extent 1 (if `wide`: the full extent with stride 0)
  // at the reduced axes.
  static ArrayArgument beside(const at::Tensor& tensor, const std::vector<int64_t>& shape, uint32_t reduced,
                              bool keeps, bool wide);

  void run(const c10::IValue* values, size_t saved);

  // values: the incoming gradients, the arguments, dim, keepdim, the totals, the mask, then the gradients.
  void run_backward(const c10::IValue* values);

  size_t saved = 0;  // number of totals that the gradient needs

 private:
  void trace_backward(Tracer& tracer, const std::vector<Array>& all, ElementTile tile, const Dtypes& types,
                      const ExpressionValues& passed, const ElementGradients& gradients, size_t accumulators,
                      const Tile& number) const;

  Dtypes traced_dtypes(const c10::IValue* values, const ExpressionValues& passed, at::ScalarType common);

  KnownByCall<Dtypes> known_;
};

}  // namespace tile
