// Flash attention: one pass over the keys with a running maximum and sum.
#include <limits>

#include "kernels.h"

namespace tile::attention {

void forward(Array query, Array key, Array value, std::optional<Array> bias, Array out, Array lse, Tile scale,
             Tile offset, Tile group, int rows, int cols, int depth, DType operand) {
  Tile i = num_blocks(0) - 1 - bid(0), head = bid(1), batch = bid(2);  // causal: the longest blocks first
  Scores scores(query, key, bias, batch, head, group, scale, offset, rows, cols, depth, operand);
  View values = value[{batch, head / group}].tiled_view({cols, depth});
  DType dtype = sum_dtype(query.dtype());
  // The least number instead of -inf: a row with nothing but -inf so far then adds 0, not NaN.
  double least = dtype == f64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();

  Tile q = scores.query(i);
  Tile top = full({rows, 1}, least, dtype), total = zeros({rows, 1}, dtype), sum = zeros({rows, depth}, dtype);
  for (Tile j : scores.visible_keys(i)) {
    Tile s = scores.at(q, scores.key(j), i, j);
    Tile new_top = max(top, s.max(1, true)), shrink = exp(top - new_top), p = exp(s - new_top);
    total = total * shrink + p.sum(1, true);
    sum = mma(p.astype(operand), values.load({j, 0}).astype(operand), sum * shrink);
    top = new_top;
  }

  Tile empty = total == 0.0;
  out[{batch, head}].tiled_view({rows, depth}).store({i, 0}, where(empty, 0.0, sum / total));
  Tile log_sum = where(empty, -inf, top + log(total));
  lse[{batch, head}].tiled_view({rows}).store({i}, log_sum.reshape({rows}));
}

}  // namespace tile::attention
