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
    Tile top = detach(max(r.top, sink)), shrink = exp(r.top - top);
    r = {top, r.total * shrink + exp(sink - top), r.sum * shrink};
  }
  // Nothing was added. Scores beyond all numbers also add nothing, but have no softmax.
  Tile empty = (r.total == 0.0) & (r.top < inf);
  out.store({i, 0}, where(empty, 0.0, r.sum / r.total));
  lse.store({i}, where(empty, -inf, r.top + log(r.total)).reshape({r.top.shape(0)}));
}

}  // namespace

void decode(const Decode<Array, Tile>& of) {
  const auto& [query, key, value, lengths, bias, out, lse, partials, scale, row_tiles, queries, options, tile,
               part, operand] = of;
  const auto [rows, cols, depth] = tile;
  const DType dtype = sum_dtype(query.dtype());
  Tile split = bid(0), key_head = bid(1), i = 0, batch = bid(2), factor = scale.astype(dtype);
  if (row_tiles) key_head = bid(1) / *row_tiles, i = bid(1) % *row_tiles;
  // A score is summed up in parts of the head dim: of 32 bits several short sums lose less than a long one.
  std::vector<Tile> q;
  for (int c = 0; c < depth / part; ++c)
    q.push_back(query[{batch, key_head}].tiled_view({rows, part}).load({i, c}).astype(operand));
  Tile length = lengths ? lengths->tiled_view({1}).load({batch}).reshape(Shape{}).astype(i32) : key.dim(2);
  const auto& paged = options.page_rows;
  Tile page_size = paged ? Tile(paged->size) : key.dim(2), most = page_size;
  if (options.table) most = options.table->dim(1) * page_size;
  if (lengths) assert_((length >= 0) & (length <= most), "a sequence is no longer than its cache");
  // Row r is query r % queries of its head.
  Tile row = (i * rows + arange(rows)).reshape({rows, 1}), head = key_head * query.dim(2) + row;
  if (queries) head = key_head * (query.dim(2) / *queries) + row / *queries;
  // Places of the first query: the first key that it sees, the last one, and its own.
  std::optional<Tile> first_seen = options.first, last_seen = options.offset, own_place = options.diagonal;
  if (lengths) {
    own_place = length - (queries ? *queries : Tile(1));
    if (queries) last_seen = own_place;
    if (options.before) first_seen = *own_place - *options.before;
  }
  const auto of_row = [&](const std::optional<Tile>& of_first) {
    return of_first && queries ? *of_first + row % *queries : of_first;
  };
  const std::optional<Tile> row_first = of_row(first_seen), row_last = of_row(last_seen),
                            position = of_row(own_place);

  std::optional<Tile> slope, cap;
  if (options.slopes) slope = gather((*options.slopes)[{batch}], {head}).astype(dtype);
  if (options.softcap) cap = options.softcap->astype(dtype);
  const bool hides = bias && bias->scores.dtype() == boolean, adds = bias && !hides,
             plain = !slope && !cap && !adds, to_base_2 = plain && info(operand).bits == 16;
  const auto read_bias = [&](const Tile& j) {
    const Array& all = bias->scores;
    Array own = all[{min(batch, all.dim(0) - 1), min(key_head, all.dim(1) - 1)}];
    if (bias->rows == BiasRows::queries)
      return gather_rows(own, 0, row.reshape({rows}) % *queries, {j * cols}, {cols});
    const bool one = bias->rows == BiasRows::one;
    return own.tiled_view({one ? 1 : rows, cols}).load({one ? Tile(0) : i, j});
  };
  const auto score = [&](const Tile& product, const Tile& col, const std::optional<Tile>& added) {
    Tile s;
    if (cap) {
      s = tanh(product * (factor / *cap)) * *cap;
      if (added) s += added->astype(dtype);
    } else {
      s = added ? fma(product, factor, added->astype(dtype)) : product * factor;
    }
    if (slope) s = fma(abs(*position - col).astype(dtype), -*slope, s);
    return s;
  };
  // exp(score - top), where the product's rounding is the only one if nothing is added.
  const auto exponential = [&](const Tile& product, const Tile& s, const Tile& top) {
    if (to_base_2) return exp2(fma(product, factor * log2_e, top * -log2_e));
    return exp(plain ? fma(product, factor, -top) : s - top);
  };

  Tile stop = length, low = 0;
  if (options.offset) stop = min(max(*options.offset + (queries ? *queries : Tile(1)), 0), length);
  Tile high = cdiv(stop, cols);
  if (first_seen) low = min(max(*first_seen, 0) / cols, high);
  Tile split_tiles = cdiv(high - low, num_blocks(0)), first = min(low + split * split_tiles, high);

  Running r = nothing_yet(rows, depth, dtype);
  Tile totals_of = zeros({rows, cols}, dtype);  // summed up at the end: a warp has some columns
  Tile keys_apart, values_apart;
  if (paged) keys_apart = paged->keys_apart, values_apart = paged->values_apart;
  const char* no_page = "every page of the block table is in the cache";
  const auto in_cache = [](const Tile& page, const Tile& pages) {
    return (page >= 0) & (page < pages.astype(page.dtype()));
  };
  Tile known = full({cols}, 1, boolean);  // pages that are read; checked at the end, where no load waits
  std::optional<Tile> next_bias;  // read a tile ahead, because nothing copies it ahead as it does keys
  if (bias) next_bias = read_bias(first);
  for (Tile j : range(first, min(first + split_tiles, high))) {
    const std::optional<Tile> own_bias = next_bias;
    if (bias) next_bias = read_bias(j + 1);
    Tile number = j * cols + arange(cols), page;
    if (paged) {
      Tile wanted = number < length;
      if (first_seen) wanted = wanted & (number >= *first_seen);
      page = gather((*options.table)[{batch}], {number / paged->size});
      known = known & (in_cache(page, paged->pages) | logical_not(wanted));
      page = where(wanted, page.astype(i32), -1);
    } else if (options.table) {
      page = (*options.table)[{batch}].tiled_view({1}).load({j / *options.page_tiles}).reshape(Shape{});
      assert_(in_cache(page, key.dim(0)), no_page);
      page = min(max(page.astype(i32), 0), key.dim(0) - 1);  // it is loaded before that is known
    }
    const auto load = [&](const Array& cache, const Tile& apart, int width, int c, bool only_seen) {
      if (paged) {
        Tile row = where(page >= 0, page * apart + number % paged->size, -1);
        return gather_rows(cache[{key_head}], 0, row, {c * width}, {width}).astype(operand);
      }
      Array own = options.table ? cache[{page, key_head}] : cache[{batch, key_head}];
      // Behind the sequence the cache may hold NaN, which times 0 is NaN.
      if (only_seen && lengths)
        own = own.slice(0, 0, options.table ? length - j / *options.page_tiles * page_size : length);
      return own.tiled_view({cols, width})
          .load({options.table ? j % *options.page_tiles : j, c})
          .astype(operand);
    };
    std::vector<Tile> k;
    for (size_t c = 0; c < q.size(); ++c)
      k.push_back(load(key, keys_apart, part, static_cast<int>(c), false));
    Tile v = load(value, values_apart, depth, 0, true);
    Tile col = number.reshape({1, cols}), seen = col < length;
    if (row_last) seen = seen & (col <= *row_last);
    if (row_first) seen = seen & (col >= *row_first);
    if (hides) seen = seen & *own_bias;
    Tile product = mma(q[0], k[0].t(), zeros({rows, cols}, dtype));
    for (size_t c = 1; c < q.size(); ++c) product += mma(q[c], k[c].t(), zeros({rows, cols}, dtype));
    Tile s = score(product, col, adds ? own_bias : std::nullopt);
    Tile top = detach(max(r.top, where(seen, s, least_number(dtype)).max(1, true))),
         shrink = exp(r.top - top), p = where(seen, exponential(product, s, top), 0.0);
    totals_of = fma(totals_of, shrink, p);
    // With 32-bit operands, sums of partial sums lose less than one long sum.
    r = {top, r.total,
         info(operand).bits == 16
             ? mma(p.astype(operand), v, r.sum * shrink)
             : fma(r.sum, shrink, mma(p.astype(operand), v, zeros({rows, depth}, dtype)))};
  }
  if (paged) assert_(known, no_page);
  r.total = totals_of.sum(1, true);

  if (!partials) {
    finish(r, options.sinks, head, out[{batch, key_head}].tiled_view({rows, depth}),
           lse[{batch, key_head}].tiled_view({rows}), i);
    return;
  }
  const auto own = [&](const Array& of) { return of[{batch, key_head}].permute({1, 0})[{split}]; };
  partials->sums[{batch, key_head}]
      .permute({1, 0, 2})[{split}]
      .tiled_view({rows, depth})
      .store({i, 0}, r.sum);
  own(partials->tops).tiled_view({rows}).store({i}, r.top.reshape({rows}));
  own(partials->totals).tiled_view({rows}).store({i}, r.total.reshape({rows}));
}

void decode_combine(const PartialResults<Array>& partials, std::optional<Array> sinks, Array out, Array lse,
                    Tile queries, CombineSize size) {
  const auto& [parts, tops, totals] = partials;
  const auto [rows, splits, depth] = size;
  const DType dtype = parts.dtype();
  Tile i = bid(0), key_head = bid(1), batch = bid(2);
  Running r = nothing_yet(rows, depth, dtype);
  for (Tile j : range(cdiv(tops.dim(3), splits))) {
    const auto each = [&](const Array& array, double pad) {
      return array[{batch, key_head}].tiled_view({rows, splits}).load({i, j}, pad);
    };
    Tile part_tops = each(tops, least_number(dtype)), top = detach(max(r.top, part_tops.max(1, true))),
         shrink = exp(r.top - top), part = exp(part_tops - top);
    Tile sums = parts[{batch, key_head}].tiled_view({rows, splits, depth}).load({i, j, 0});
    Tile sum = (sums * part.reshape({rows, splits, 1})).sum(1);
    r = {top, fma(r.total, shrink, (each(totals, 0) * part).sum(1, true)), fma(r.sum, shrink, sum)};
  }
  Tile row = (i * rows + arange(rows)).reshape({rows, 1});
  finish(r, sinks, key_head * (out.dim(2) / queries) + row / queries,
         out[{batch, key_head}].tiled_view({rows, depth}), lse[{batch, key_head}].tiled_view({rows}), i);
}

}  // namespace tile::attention
