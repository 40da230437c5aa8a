// Flash attention: one pass over the keys with a running maximum and sum.
#include "kernels.h"

namespace tile::attention {

void forward(Array query, Array key, Array value, std::optional<Array> bias, Array out, Array lse,
             Array top_out, Array weight_out, std::optional<Array> residual, Tile scale, Tile offset,
             Tile group, Options::Parameters options, int rows, int cols, int depth, DType operand,
             bool heads_first, bool negative) {
  const Place place(heads_first);
  Tile i = place.tiles - 1 - place.tile, head = place.head, batch = place.batch;  // causal: the longest first
  Call call(query, key, batch, scale, offset, group, rows, cols, options);
  if (call.queries.start) {
    const auto fits = [&](const Sample& sample, const Tile& all, const char* what) {
      Tile last = batch == num_blocks(2) - 1, fits = where(last, *sample.stop == all, *sample.stop <= all);
      assert_((*sample.start >= 0) & (*sample.stop >= *sample.start) & fits, what);
    };
    fits(call.queries, query.dim(2), "cu_seqlens_q rises from 0 to the rows of query");
    fits(call.keys, key.dim(2), "cu_seqlens_k rises from 0 to the rows of key");
    assert_(*call.queries.stop - *call.queries.start <= place.tiles * rows,
            "no sequence is longer than max_seqlen_q");
  }
  Scores scores(call, query, key, bias, head, depth, operand);
  View values = call.keys.of(value, head / group).tiled_view({cols, depth});
  DType dtype = sum_dtype(query.dtype());
  // The least number instead of -inf: a row with nothing but -inf so far then adds 0, not NaN.
  double least = least_number(dtype);

  Tile q = scores.query(i);
  Tile top = full({rows, 1}, least, dtype), total = zeros({rows, 1}, dtype),
       sum = zeros({rows, depth}, dtype);
  if (call.options.sinks) {
    Tile sink = call.options.sinks->tiled_view({1}).load({head}).reshape({1, 1}).astype(dtype);
    top = max(top, sink);
    total += exp(sink - top);
  }
  for (Tile j : scores.visible_keys(i)) {
    Tile product = scores.product(q, scores.key(j));
    Tile new_top = max(top, scores.greatest(product, i, j, negative));
    Tile shrink = scores.exponential(top - new_top), p = scores.exponentials(product, new_top, i, j);
    total = total * shrink + p.sum(1, true);
    p = scores.rule.only_kept(p, scores.rule.kept(i, j));
    sum = mma(p.astype(operand), values.load({j, 0}).astype(operand), sum * shrink);
    top = new_top;
  }

  // Nothing was added. Scores beyond all numbers also add nothing, but have no softmax.
  Tile empty = (total == 0.0) & (top < inf);
  Tile result = where(empty, 0.0, sum / total);
  call.queries.of(out, head).tiled_view({rows, depth}).store({i, 0}, result);
  if (residual) {
    Tile lost = result - result.astype(out.dtype()).astype(dtype);
    call.queries.of(*residual, head).tiled_view({rows, depth}).store({i, 0}, lost);
  }
  auto store_rows = [&](Array array, Tile column) {
    call.queries.of(array, head).tiled_view({rows}).store({i}, column.reshape({rows}));
  };
  store_rows(lse, where(empty, -inf, top + log(total)));
  store_rows(top_out, where(empty, inf, top));
  store_rows(weight_out, where(empty, 0.0, 1.0 / total));
}

}  // namespace tile::attention
