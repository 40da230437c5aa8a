// Attention of so few queries that a tile holds those of several key heads, on a CPU. It computes what
// forward() does, in the same order, so that a sample has the same bits in packed samples.
#include <limits>

#include "few_rows.h"

namespace tile::attention {

void forward_few_rows(const FewRows<Array, Tile>& of) {
  const auto& [in, out, lse, top_of, weight, residual, rule, queries, heads, tile, operand, negative,
               own_bias, numbers] = of;
  const auto [rows, cols, depth] = tile;
  const Options& options = rule.options;
  const DType dtype = sum_dtype(in.query.dtype());
  const double least = least_number(dtype);
  const Shape of_rows{heads, rows, 1};
  Tile part = bid(0), batch = bid(1), scale = rule.scale.astype(dtype);
  // Row r is query r % queries of its head.
  Tile row = numbers.tiled_view({rows}).load({0}).reshape({1, rows, 1}), query = row % queries,
       head = ((part * heads + arange(heads).reshape({heads, 1, 1})) * in.query.dim(2) + row) / queries;
  const auto of_head = [&](const Array& array) { return gather(array, {head}).astype(dtype); };
  const auto load = [&](const Array& array, int length, const Tile& j) {
    return array[{batch}].tiled_view({heads, length, depth}).load({part, j, 0}).astype(operand);
  };

  std::optional<Tile> slope, cap;
  if (options.slopes) slope = of_head((*options.slopes)[{batch}]);
  if (options.softcap) cap = options.softcap->astype(dtype);
  std::optional<View> bias;
  if (in.bias)
    bias = (*in.bias)[{min(batch, in.bias->dim(0) - 1)}].tiled_view({own_bias ? heads : 1, rows, cols});
  const bool is_mask = bias && in.bias->dtype() == boolean, plain = !slope && !cap && !(bias && !is_mask),
             to_base_2 = info(operand).bits == 16;
  const auto exponential = [&](const Tile& x) { return to_base_2 ? exp2(x * log2_e) : exp(x); };

  Tile q = load(in.query, rows, 0);
  Tile top = full(of_rows, least, dtype), total = zeros(of_rows, dtype),
       sum = zeros({heads, rows, depth}, dtype);
  if (options.sinks) {
    Tile sink = of_head(*options.sinks);
    top = detach(max(top, sink));
    total += exp(sink - top);
  }
  Tile keys = in.key.dim(2), low = 0, high = cdiv(min(max(queries + rule.offset, 0), keys), cols);
  if (options.first) low = min(max(*options.first, 0) / cols, high);
  for (Tile j : range(low, high)) {
    Tile col = j * cols + arange(cols).reshape({1, 1, cols}), read;
    if (bias) read = bias->load({own_bias ? part : Tile(0), 0, j});
    const auto only = [&](Tile values, double hidden) {
      if (is_mask) values = where(read, values, hidden);
      // Sums of all columns of a tile: forward() asks each row, too.
      Tile seen = (col < keys) & (col <= query + rule.offset);
      if (options.first) seen = seen & (col >= query + *options.first);
      return where(seen, values, hidden);
    };
    const auto score = [&](const Tile& product) {
      const bool biased = bias && !is_mask;
      Tile s;
      if (cap) {
        s = tanh(product * (scale / *cap)) * *cap;
        if (biased) s += read.astype(dtype);
      } else {
        s = biased ? fma(product, scale, read.astype(dtype)) : product * scale;
      }
      return slope ? fma(abs(query + *options.diagonal - col).astype(dtype), -*slope, s) : s;
    };
    Tile product = mma(q, load(in.key, cols, j).permute({0, 2, 1}), zeros({heads, rows, cols}, dtype));
    Tile new_top, p;
    if (plain) {
      Tile greatest = negative ? only(product, -least).min(2, true) : only(product, least).max(2, true);
      new_top = detach(max(top, greatest * scale));
      p = only(to_base_2 ? exp2(fma(product, scale * log2_e, new_top * -log2_e))
                         : exp(fma(product, scale, -new_top)),
               0.0);
    } else {
      Tile s = score(product);
      Tile seen = only(s, to_base_2 ? -std::numeric_limits<double>::infinity() : least);
      new_top = detach(max(top, seen.max(2, true)));
      p = to_base_2 ? exponential(seen - new_top) : only(exp(s - new_top), 0.0);
    }
    Tile shrink = exponential(top - new_top);
    total = total * shrink + p.sum(2, true);
    sum = mma(p.astype(operand), load(in.value, cols, j), sum * shrink);
    top = new_top;
  }

  // Nothing was added. Scores beyond all numbers also add nothing, but have no softmax.
  Tile empty = (total == 0.0) & (top < inf);
  Tile result = where(empty, 0.0, sum / total);
  const auto store = [&](const Array& array, const Tile& values) {
    array[{batch}].tiled_view({heads, rows, depth}).store({part, 0, 0}, values);
  };
  store(out, result);
  if (residual) store(*residual, result - result.astype(out.dtype()).astype(dtype));
  const auto store_rows = [&](const Array& array, const Tile& values) {
    array[{batch}].tiled_view({heads, rows}).store({part, 0}, values.reshape({heads, rows}));
  };
  store_rows(lse, where(empty, -inf, top + log(total)));
  if (top_of) store_rows(*top_of, where(empty, inf, top));
  if (weight) store_rows(*weight, where(empty, 0.0, 1.0 / total));
}

}  // namespace tile::attention
