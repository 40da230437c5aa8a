// The gradient of a bias where tensor cores multiply: a tile of it is in registers, and the samples and heads
// that share the bias are added one after another.
#include <limits>

#include "kernels.h"

namespace tile::attention {

void backward_bias_tiles(const BackwardBiasTiles<Array, Tile>& of) {
  const auto& [in, grad_out, shift, delta, grad_bias, scoring, span, tile] = of;
  const Array &query = in.query, &key = in.key;
  const auto [rows, cols, depth] = tile;
  Tile spans = cdiv(cdiv(key.dim(2), cols), span), row_tiles = cdiv(query.dim(2), rows);
  // Causal: the longest rows first.
  Tile i = row_tiles - 1 - bid(0) / spans, first = bid(0) % spans * span;
  Tile heads = where(grad_bias.dim(1) == query.dim(1), 1, query.dim(1)),
       samples = where(grad_bias.dim(0) == query.dim(0), 1, query.dim(0));
  Call shared(in, bid(2), scoring, tile);
  ScoreRule shared_rule(shared, bid(1), in, false);
  View result = grad_bias[{bid(2), bid(1)}].tiled_view({rows, cols});
  Tile end = min(first + span, cdiv(key.dim(2), cols));
  Tile low = first, high = end;
  if (!shared.options.all_keys)
    high = min(max(cdiv(max((i + 1) * rows + shared.offset, 0), cols), first), end);
  if (shared.options.first) low = min(max(max(i * rows + *shared.options.first, 0) / cols, first), high);
  for (Tile j : range(low, high)) {
    // Hidden scores are -inf already, so that the loop over samples and heads asks nothing.
    Tile bias = shared_rule.seen_bias({i, j}), sum = zeros({rows, cols}, f32);
    for (Tile n : range(samples * heads)) {
      Tile batch = bid(2) + n / heads, head = bid(1) + n % heads;
      Call call(in, batch, scoring, tile);
      ScoreRule rule(call, head, in, false);
      const auto rows_of = [&](const Array& array) {
        return array[{batch, head}].tiled_view({rows, depth}).load({i, 0});
      };
      const auto keys_of = [&](const Array& array) {
        return array[{batch, head / scoring.group}].tiled_view({cols, depth}).load({j, 0});
      };
      const auto column_of = [&](const Array& array) {
        return array[{batch, head}].tiled_view({rows}).load({i}).reshape({rows, 1});
      };
      Tile grad_p = zeros({rows, cols}, f32), product = mma(rows_of(query), keys_of(key).t(), grad_p);
      if (grad_out) grad_p = mma(rows_of(*grad_out), keys_of(in.value).t(), grad_p);
      Tile score = rule.score(product, {i, j, std::nullopt, true, bias});
      sum += exp2(fma(score, log2_e, column_of(shift))) * (grad_p + column_of(delta));
    }
    result.store({i, j}, sum);
  }
  for (Tile j : range(first, low)) result.store({i, j}, zeros({rows, cols}, grad_bias.dtype()));
  for (Tile j : range(high, end)) result.store({i, j}, zeros({rows, cols}, grad_bias.dtype()));
}

}  // namespace tile::attention
