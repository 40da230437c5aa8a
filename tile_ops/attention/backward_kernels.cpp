// Gradients of attention. The probabilities are computed again from each row's saved maximum and sum; nothing
// is added atomically.
#include "score_gradients.h"

namespace tile::attention {

Tile row_deltas(const RowGradients<Array>& of, const Sample& sample, Tile head, Tile i, int rows, int depth,
                DType dtype) {
  auto rows_of = [&](const Array& array) {
    return sample.of(array, head).tiled_view({rows, depth}).load({i, 0}).astype(dtype);
  };
  Tile sum = zeros({rows}, dtype);
  if (of.grad_out) {
    Tile exact_out = of.residual ? rows_of(of.out) + rows_of(*of.residual) : rows_of(of.out);
    sum = (rows_of(*of.grad_out) * exact_out).sum(1);
  }
  if (of.grad_lse) sum -= sample.of(*of.grad_lse, head).tiled_view({rows}).load({i}).astype(dtype);
  return sum;
}

void backward_delta(const RowGradients<Array>& of, Array delta, const Options& options, int rows, int depth) {
  Tile i = bid(0), head = bid(1);
  Sample sample(options.query_starts, bid(2));
  Tile sum = row_deltas(of, sample, head, i, rows, depth, delta.dtype());
  sample.of(delta, head).tiled_view({rows}).store({i}, sum);
}

void backward_keys(const BackwardKeys<Array, Tile>& of) {
  const auto& [from, grad_key, grad_value, grad_query, partial, rule, span, first, tile, operand,
               heads_first] = of;
  const Array &query = from.in.query, &key = from.in.key;
  const int depth = tile.depth;
  const BlockIndex block(heads_first);
  Tile key_heads = key.dim(1), own = first ? *first + bid(0) : bid(0);
  Tile group = rule.group, key_head = first ? mod(own, key_heads) : block.head,
       batch = first ? floordiv(own, key_heads) : block.batch, first_head = key_head * group;
  DType dtype = sum_dtype(query.dtype());
  Call call(from.in, batch, rule, tile);
  Tile factor = call.scale;
  Shape query_tile{tile.rows, depth}, key_tile{tile.cols, depth};
  // Returns a head's sums of the gradient of query.
  const auto sums = [&](const Tile& head) {
    return partial ? (*partial)[{bid(0), head - first_head}].tiled_view(query_tile)
                   : call.queries.of(*grad_query, head).tiled_view(query_tile);
  };
  Tile row_tiles = call.queries.of(query, first_head).tiled_view(query_tile).num_tiles(0);
  if (grad_query)
    for (Tile head : range(first_head, first_head + group))
      for (Tile i : range(row_tiles)) sums(head).store({i, 0}, 0.0);

  Tile key_tiles = call.keys.of(key, key_head).tiled_view(key_tile).num_tiles(0),
       first_tile = first ? Tile(0) : block.tile * span;
  for (Tile j : range(first_tile, min(first_tile + span, key_tiles))) {
    Tile sum_key = zeros(key_tile, dtype), sum_value = zeros(key_tile, dtype);
    for (Tile head : range(first_head, first_head + group)) {
      Gradients gradients(call, from, head, depth, operand);
      const auto add = [&](const Place& at) {
        const Tile& i = at.i;
        auto t = gradients.at(at);
        Tile grad_score = (t.grad_product * factor).astype(operand);
        if (grad_value && t.grad_out) sum_value = mma(t.p.astype(operand).t(), *t.grad_out, sum_value);
        if (grad_key) sum_key = mma(grad_score.t(), t.q, sum_key);
        if (grad_query) {
          View sum_query = sums(head);
          sum_query.store({i, 0}, mma(grad_score, t.k, sum_query.load({i, 0})));
        }
      };
      if (from.in.visits) {
        Visited(from.in, head, batch, j, true).each(add);
      } else {
        for (Tile i : gradients.scores.seeing_rows(j)) add({i, j});
      }
    }
    if (grad_key) call.keys.of(*grad_key, key_head).tiled_view(key_tile).store({j, 0}, sum_key);
    if (grad_value) call.keys.of(*grad_value, key_head).tiled_view(key_tile).store({j, 0}, sum_value);
  }
  if (partial)
    for (Tile head : range(first_head, first_head + group))
      for (Tile i : range(row_tiles))
        call.queries.of(*grad_query, head).tiled_view(query_tile).store({i, 0}, sums(head).load({i, 0}));
}

void backward_query(const BackwardQuery<Array, Tile>& of) {
  const auto [rows, cols, depth] = of.tile;
  const BlockIndex block(of.heads_first);
  Tile i = block.tiles - 1 - block.tile, head = block.head, batch = block.batch;
  DType dtype = sum_dtype(of.from.in.query.dtype());
  Call call(of.from.in, batch, of.rule, of.tile);
  Tile factor = call.scale, sum = zeros({rows, depth}, dtype);
  Gradients gradients(call, of.from, head, depth, of.operand);
  const auto add = [&](const Place& at) {
    auto t = gradients.at(at);
    sum = mma((t.grad_product * factor).astype(of.operand), t.k, sum);
  };
  if (of.from.in.visits) {
    Visited(of.from.in, head, batch, i, false).each(add);
  } else {
    for (Tile j : gradients.scores.visible_keys(i)) add({i, j});
  }
  call.queries.of(of.grad_query, head).tiled_view({rows, depth}).store({i, 0}, sum);
}

void backward_bias(const BackwardBias<Array, Tile>& of) {
  const Array &query = of.from.in.query, &key = of.from.in.key;
  const Array& grad_bias = of.grad_bias;
  const auto [rows, cols, depth] = of.tile;
  // bid(0) counts the tiles of one head's bias.
  Tile bias_cols = cdiv(grad_bias.dim(3), cols), row_tile = bid(0) / bias_cols, key_tile = bid(0) % bias_cols;
  Tile row_tiles = cdiv(query.dim(2), rows), key_tiles = cdiv(key.dim(2), cols);
  DType dtype = sum_dtype(query.dtype());
  Tile sum = zeros({rows, cols}, dtype);
  for (Tile batch : all_or_one(grad_bias.dim(0), query.dim(0), bid(2)))
    for (Tile head : all_or_one(grad_bias.dim(1), query.dim(1), bid(1))) {
      Call call(of.from.in, batch, of.rule, of.tile);
      Gradients gradients(call, of.from, head, depth, of.operand);
      for (Tile j : all_or_one(bias_cols, key_tiles, key_tile))
        for (Tile i : all_or_one(cdiv(grad_bias.dim(2), rows), row_tiles, row_tile))
          sum += gradients.at({i, j}).grad_score;
    }
  sum = where(grad_bias.dim(2) == 1, sum.sum(0, true), sum);
  sum = where(grad_bias.dim(3) == 1, sum.sum(1, true), sum);
  // A sum over rows or columns is the same in all of them, and the store clips it to the first.
  grad_bias[{bid(2), bid(1)}].tiled_view({rows, cols}).store({row_tile, key_tile}, sum);
}

void backward_row_bias(std::optional<Array> grad_lse, Array weight, Array grad_bias, int rows) {
  Tile tile = bid(0), row_tiles = cdiv(weight.dim(2), rows);
  DType dtype = weight.dtype();
  Tile sum = zeros({rows}, dtype);
  if (grad_lse)
    for (Tile batch : all_or_one(grad_bias.dim(0), weight.dim(0), bid(2)))
      for (Tile head : all_or_one(grad_bias.dim(1), weight.dim(1), bid(1))) {
        View gradients = (*grad_lse)[{batch, head}].tiled_view({rows});
        View weights = weight[{batch, head}].tiled_view({rows});
        for (Tile i : all_or_one(cdiv(grad_bias.dim(2), rows), row_tiles, tile))
          sum += where(weights.load({i}) == 0.0, 0.0, gradients.load({i}).astype(dtype));
      }
  sum = where(grad_bias.dim(2) == 1, sum.sum(0, true), sum);
  grad_bias[{bid(2), bid(1)}].tiled_view({rows, 1}).store({tile, 0}, sum.reshape({rows, 1}));
}

void backward_sinks(Array sinks, Array top, Array weight, Array delta, Array grad_sinks, int rows) {
  Tile head = bid(0);
  DType dtype = weight.dtype();
  Tile sink = sinks.tiled_view({1}).load({head}).astype(dtype), sum = zeros({rows}, dtype);
  for (Tile batch : range(weight.dim(0))) {
    auto rows_of = [&](const Array& array) { return array[{batch, head}].tiled_view({rows}); };
    for (Tile i : range(rows_of(weight).num_tiles(0))) {
      Tile p = exp(sink - rows_of(top).load({i}, inf)) * rows_of(weight).load({i});
      sum -= p * rows_of(delta).load({i});
    }
  }
  grad_sinks.tiled_view({1}).store({head}, sum.sum(0, true));
}

}  // namespace tile::attention
