// Flash attention: one pass over the keys with a running maximum and sum.
#include "kernels.h"

namespace tile::attention {

void forward(const Forward<Array, Tile>& of) {
  const auto [rows, cols, depth] = of.tile;
  const BlockIndex block(of.heads_first);
  Tile i = block.tiles - 1 - block.tile, head = block.head, batch = block.batch;  // causal: the longest first
  Call call(of.in, batch, of.rule, of.tile);
  if (call.queries.start) {
    const auto fits = [&](const Sample& sample, const Tile& all, const char* what) {
      Tile last = batch == num_blocks(2) - 1, fits = where(last, *sample.stop == all, *sample.stop <= all);
      assert_((*sample.start >= 0) & (*sample.stop >= *sample.start) & fits, what);
    };
    fits(call.queries, of.in.query.dim(2), "cu_seqlens_q rises from 0 to the rows of query");
    fits(call.keys, of.in.key.dim(2), "cu_seqlens_k rises from 0 to the rows of key");
    assert_(call.queries.length() <= block.tiles * rows, "no sequence is longer than max_seqlen_q");
  }
  const auto compute = [&] {
    Scores scores(call, of.in, head, depth, of.operand);
    View values = call.keys.of(of.in.value, head / of.rule.group).tiled_view({cols, depth});
    DType dtype = sum_dtype(of.in.query.dtype());
    // The least number instead of -inf: a row with nothing but -inf so far then adds 0, not NaN.
    double least = least_number(dtype);

    Tile q = scores.query(i);
    Tile top = full({rows, 1}, least, dtype), total = zeros({rows, 1}, dtype),
         sum = zeros({rows, depth}, dtype);
    if (call.options.sinks) {
      Tile sink = call.options.sinks->tiled_view({1}).load({head}).reshape({1, 1}).astype(dtype);
      top = detach(max(top, sink));
      total += exp(sink - top);
    }
    const auto add = [&](const Place& at) {
      Tile product = scores.product(q, scores.key(at.j));
      Tile new_top = detach(max(top, scores.greatest(product, at, of.negative)));
      Tile shrink = scores.exponential(top - new_top), p = scores.exponentials(product, new_top, at);
      total = total * shrink + p.sum(1, true);
      p = scores.rule.only_kept(p, scores.rule.kept(i, at.j));
      sum = mma(p.astype(of.operand), values.load({at.j, 0}).astype(of.operand), sum * shrink);
      top = new_top;
    };
    if (of.in.visits) {
      Visited(of.in, head, batch, i, false).each(add);
    } else {
      for (Tile j : scores.visible_keys(i)) add({i, j});
    }

    // Nothing was added. Scores beyond all numbers also add nothing, but have no softmax.
    Tile empty = (total == 0.0) & (top < inf);
    Tile result = where(empty, 0.0, sum / total);
    call.queries.of(of.out, head).tiled_view({rows, depth}).store({i, 0}, result);
    if (of.residual) {
      Tile lost = result - result.astype(of.out.dtype()).astype(dtype);
      call.queries.of(*of.residual, head).tiled_view({rows, depth}).store({i, 0}, lost);
    }
    auto store_rows = [&](Array array, Tile column) {
      call.queries.of(array, head).tiled_view({rows}).store({i}, column.reshape({rows}));
    };
    store_rows(of.lse, where(empty, -inf, top + log(total)));
    store_rows(of.top, where(empty, inf, top));
    store_rows(of.weight, where(empty, 0.0, 1.0 / total));
  };
  if (call.options.skips)
    when(i * rows < call.queries.length(), compute);
  else
    compute();
}

}  // namespace tile::attention
