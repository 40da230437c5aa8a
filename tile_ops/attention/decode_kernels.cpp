// Few queries over a part of the keys, and the partial results put together.
#include "decode_kernels.h"

namespace tile::attention {
namespace {

// A softmax so far: sum and total are relative to exp(top), [rows, 1].
struct Running {
  Tile top, total, sum;
};
Running nothing_yet(int rows, int depth, DType dtype) {
  return {full({rows, 1}, least_number(dtype), dtype), zeros({rows, 1}, dtype), zeros({rows, depth}, dtype)};
}

// The result, with the score of a sink where there are any; `head` [rows, 1].
void finish(Running r, const std::optional<Array>& sinks, const Tile& head, const View& out, const View& lse,
            const Tile& i) {
  const DType dtype = r.top.dtype();
  if (sinks) {
    Tile sink = gather(*sinks, {head}).astype(dtype);
    Tile top = max(r.top, sink), shrink = exp(r.top - top);
    r = {top, r.total * shrink + exp(sink - top), r.sum * shrink};
  }
  // Nothing was added. Scores beyond all numbers also add nothing, but have no softmax.
  Tile empty = (r.total == 0.0) & (r.top < inf);
  out.store({i, 0}, where(empty, 0.0, r.sum / r.total));
  lse.store({i}, where(empty, -inf, r.top + log(r.total)).reshape({r.top.shape(0)}));
}

}  // namespace

void decode(const Decode<Array, Tile>& of) {
  const auto& [query, key, value, lengths, out, lse, partials, scale, queries, options, tile, part, operand] =
      of;
  const auto [rows, cols, depth] = tile;
  const DType dtype = sum_dtype(query.dtype());
  Tile split = bid(0), row_tiles = cdiv(query.dim(2), rows), key_head = bid(1) / row_tiles,
       i = bid(1) % row_tiles, batch = bid(2), factor = scale.astype(dtype);
  Tile length = lengths.tiled_view({1}).load({batch}).reshape(Shape{}).astype(i32);
  Tile most = key.dim(2);
  if (options.table) most = options.table->dim(1) * most;
  assert_((length >= 0) & (length <= most), "a sequence is no longer than its cache");
  // Row r is query r % queries of its head.
  Tile row = (i * rows + arange(rows)).reshape({rows, 1}), position = length - queries + row % queries,
       head = key_head * (query.dim(2) / queries) + row / queries;

  std::optional<Tile> slope, cap;
  if (options.slopes) slope = gather((*options.slopes)[{batch}], {head}).astype(dtype);
  if (options.softcap) cap = options.softcap->astype(dtype);
  const bool plain = !slope && !cap, to_base_2 = plain && info(operand).bits == 16;
  const auto score = [&](const Tile& product, const Tile& col) {
    Tile s = cap ? tanh(product * (factor / *cap)) * *cap : product * factor;
    if (slope) s = fma(abs(position - col).astype(dtype), -*slope, s);
    return s;
  };
  // exp(score - top), where the product's rounding is the only one if nothing is added.
  const auto exponential = [&](const Tile& product, const Tile& s, const Tile& top) {
    if (to_base_2) return exp2(fma(product, factor * log2_e, top * -log2_e));
    return exp(plain ? fma(product, factor, -top) : s - top);
  };

  Tile low = 0, high = cdiv(length, cols);
  if (options.before) low = min(max(length - queries - *options.before, 0) / cols, high);
  Tile split_tiles = cdiv(high - low, num_blocks(0)), first = min(low + split * split_tiles, high);

  Running r = nothing_yet(rows, depth, dtype);
  Tile totals_of = zeros({rows, cols}, dtype);  // summed up at the end: a warp has some columns
  // A score is summed up in parts of the head dim: of 32 bits several short sums lose less than a long one.
  std::vector<Tile> q;
  for (int c = 0; c < depth / part; ++c)
    q.push_back(query[{batch, key_head}].tiled_view({rows, part}).load({i, c}).astype(operand));
  for (Tile j : range(first, min(first + split_tiles, high))) {
    Tile page;
    if (options.table) {
      page = (*options.table)[{batch}]
                 .tiled_view({1})
                 .load({j / *options.page_tiles})
                 .reshape(Shape{})
                 .astype(i32);
      assert_((page >= 0) & (page < key.dim(0)), "every page of the block table is in the cache");
      page = min(max(page, 0), key.dim(0) - 1);  // it is loaded before that is known
    }
    const auto load = [&](const Array& cache, int width, int c) {
      if (!options.table)
        return cache[{batch, key_head}].tiled_view({cols, width}).load({j, c}).astype(operand);
      return cache[{page, key_head}]
          .tiled_view({cols, width})
          .load({j % *options.page_tiles, c})
          .astype(operand);
    };
    std::vector<Tile> k;
    for (size_t c = 0; c < q.size(); ++c) k.push_back(load(key, part, static_cast<int>(c)));
    Tile v = load(value, depth, 0);
    Tile col = (j * cols + arange(cols)).reshape({1, cols}), seen = (col < length) & (col <= position);
    if (options.before) seen = seen & (col >= position - *options.before);
    Tile product = mma(q[0], k[0].t(), zeros({rows, cols}, dtype));
    for (size_t c = 1; c < q.size(); ++c) product += mma(q[c], k[c].t(), zeros({rows, cols}, dtype));
    Tile s = score(product, col);
    Tile top = max(r.top, where(seen, s, least_number(dtype)).max(1, true)), shrink = exp(r.top - top),
         p = where(seen, exponential(product, s, top), 0.0);
    totals_of = fma(totals_of, shrink, p);
    // With 32-bit operands, sums of partial sums lose less than one long sum.
    r = {top, r.total,
         info(operand).bits == 16
             ? mma(p.astype(operand), v, r.sum * shrink)
             : fma(r.sum, shrink, mma(p.astype(operand), v, zeros({rows, depth}, dtype)))};
  }
  r.total = totals_of.sum(1, true);

  if (!partials) {
    finish(r, options.sinks, head, out[{batch, key_head}].tiled_view({rows, depth}),
           lse[{batch, key_head}].tiled_view({rows}), i);
    return;
  }
  partials->sums[{split, batch, key_head}].tiled_view({rows, depth}).store({i, 0}, r.sum);
  partials->tops[{split, batch, key_head}].tiled_view({rows}).store({i}, r.top.reshape({rows}));
  partials->totals[{split, batch, key_head}].tiled_view({rows}).store({i}, r.total.reshape({rows}));
}

void decode_combine(const PartialResults<Array>& partials, std::optional<Array> sinks, Array out, Array lse,
                    Tile queries, int rows, int depth) {
  const auto& [parts, tops, totals] = partials;
  Tile i = bid(0), key_head = bid(1), batch = bid(2);
  Running r = nothing_yet(rows, depth, parts.dtype());
  for (Tile split : range(parts.dim(0))) {
    const auto column = [&](const Array& array) {
      return array[{split, batch, key_head}].tiled_view({rows}).load({i}).reshape({rows, 1});
    };
    Tile part_top = column(tops), top = max(r.top, part_top), shrink = exp(r.top - top),
         part = exp(part_top - top);
    Tile sum = parts[{split, batch, key_head}].tiled_view({rows, depth}).load({i, 0});
    r = {top, fma(column(totals), part, r.total * shrink), fma(sum, part, r.sum * shrink)};
  }
  Tile row = (i * rows + arange(rows)).reshape({rows, 1});
  finish(r, sinks, key_head * (out.dim(2) / queries) + row / queries,
         out[{batch, key_head}].tiled_view({rows, depth}), lse[{batch, key_head}].tiled_view({rows}), i);
}

}  // namespace tile::attention
