// Gradients where tensor cores multiply: scores have a row a key. Probabilities and gradients of scores are
// then left operands directly from registers, for the gradients of value and key.
#include "kernels.h"

namespace tile::attention {
namespace {

// Probabilities of a tile of keys by queries: exp2(score * log2 e + shift).
Tile probabilities(const ScoreRule& rule, const Tile& product, const Tile& shift, const Place& at,
                   std::optional<Tile>* slope) {
  if (rule.plain(at)) return rule.only(exp2(fma(product, rule.scale * log2_e, shift)), 0.0, at);
  return rule.only(exp2(fma(rule.score(product, at, slope), log2_e, shift)), 0.0, at);
}

// The order of a tile's sums in memory: blocks of 16 x 8, in the order in which a warp holds them. A thread
// adds its four elements of a block at once, two of a row and two of the row 8 below, and a warp adds to
// consecutive addresses.
constexpr int halves = 2, side = 8, lanes_a_row = 4, pair = 2;
Tile in_sums(const Tile& sum, int rows, int depth) {
  return sum.reshape({rows / (halves * side), halves, side, depth / side, lanes_a_row, pair})
      .permute({0, 3, 2, 4, 1, 5})
      .reshape({rows * depth});
}
Tile out_of_sums(const Tile& sum, int rows, int depth) {
  return sum.reshape({rows / (halves * side), depth / side, side, lanes_a_row, halves, pair})
      .permute({0, 4, 2, 1, 3, 5})
      .reshape({rows, depth});
}

// Among all heads, one of a launch's own.
Tile of_all(const Tile& own, const std::optional<Members<Tile>>& members) {
  if (!members) return own;
  const auto& [group, first, count] = *members;
  return own / count * group + first + own % count;
}

}  // namespace

void backward_rows(const BackwardRows<Array, Tile>& of) {
  const int rows = of.rows;
  Tile i = bid(0), own = bid(1), batch = bid(2), head = of_all(own, of.members);
  Sample sample(of.options.query_starts, batch);
  auto row_of = [&](Array array, double pad) {
    return sample.of(array, head).tiled_view({rows}).load({i}, pad).astype(f32);
  };
  Tile sum = row_deltas(of.of, sample, head, i, rows, of.depth, f32);
  // Past the last row, and in rows that attend to nothing: exp2(-inf) = 0.
  const auto store = [&](const Array& array, const Tile& row) {
    sample.of_whole_tiles(array, own).tiled_view({rows}).store({sample.own_whole_tile(i, rows)}, row);
  };
  store(of.shift, row_of(of.top, inf) * -log2_e + log2(row_of(of.weight, 0)));
  store(of.delta, sum * -of.scale.astype(f32));
  if (of.sums)
    sample.of_whole_tiles(*of.sums, own)
        .tiled_view({1, rows * of.depth})
        .store({sample.own_whole_tile(i, rows), 0}, 0.0);
}

void backward_rounded(Array sums, Array grad_query, std::optional<Members<Tile>> members,
                      const Options& options, int rows, int depth) {
  Tile i = bid(0), own = bid(1), batch = bid(2);
  Sample sample(options.query_starts, batch);
  View tile = sample.of_whole_tile(sums, own, i, rows).tiled_view({rows * depth});
  // Past the end of a packed sample there may be no tile.
  Tile sum = (sample.start ? tile : tile.unchecked()).load({0});
  sample.of(grad_query, of_all(own, members))
      .tiled_view({rows, depth})
      .store({i, 0}, out_of_sums(sum, rows, depth));
}

void backward_transposed(const BackwardTransposed<Array, Tile>& of) {
  const auto& [in, grad_out, shift, delta, grad_key, grad_value, sums, scoring, more, tile] = of;
  const Array &query = in.query, &key = in.key, &value = in.value;
  const auto [rows, cols, depth] = tile;
  const auto& members = scoring.members;
  const BlockIndex block(true);
  Tile count = members ? members->count : scoring.group;
  Tile j = block.tile, key_head = block.head, batch = block.batch, first_own = key_head * count;
  const DType operand = query.dtype();
  Shape query_tile{rows, depth}, key_tile{cols, depth};
  Call call(in, batch, scoring, tile);
  const auto compute = [&] {
    Tile k = call.keys.of(key, key_head).tiled_view(key_tile).load({j, 0}),
         v = call.keys.of(value, key_head).tiled_view(key_tile).load({j, 0});
    Tile sum_key = zeros(key_tile, f32), sum_value = zeros(key_tile, f32);
    for (Tile own : range(first_own, first_own + count)) {
      Tile head = of_all(own, members);
      ScoreRule rule(call, head, in, true);
      auto head_of = [&](Array array) { return call.queries.of(array, head).tiled_view(query_tile); };
      auto row_of = [&](Array array, Tile i) {
        Tile row = call.queries.of_whole_tiles(array, own)
                       .tiled_view({rows})
                       .load({call.queries.whole_tile(i, rows)});
        return row.reshape({1, rows});
      };
      const auto add = [&](const Place& at) {
        const Tile& i = at.i;
        Tile q = head_of(query).load({i, 0}), g, grad_p = zeros({cols, rows}, f32);
        // Both products are begun before the first is used.
        Tile product = mma(k, q.t(), grad_p);
        if (grad_out) {
          g = head_of(*grad_out).load({i, 0});
          grad_p = mma(v, g.t(), grad_p);
        }
        std::optional<Tile> slope, kept = rule.kept(i, j);
        Tile p = probabilities(rule, product, row_of(shift, i), at, &slope);
        // Negative where they are dropped, so that no other tile waits for the second use.
        if (kept) p = where(*kept, p, -p);
        Tile rounded = (kept ? maximum_nan(p, 0.0) * rule.kept_factor() : p).astype(operand);
        if (grad_out && grad_value) sum_value = mma(rounded, g, sum_value);
        // Rounded, they take half the registers.
        if (kept)
          grad_p = where(p < 0.0, 0.0, grad_p * rule.kept_factor()), p = abs(p);
        else
          p = rounded.astype(f32);
        Tile grad_product = p * fma(grad_p, call.scale, row_of(delta, i));
        Tile grad_score = (slope ? grad_product * *slope : grad_product).astype(operand), sum;
        if (sums) sum = mma(grad_score.t(), k, zeros(query_tile, f32));
        if (grad_key) sum_key = mma(grad_score, q, sum_key);
        if (!sums) return;
        call.queries.of_whole_tile(*sums, own, i, rows)
            .tiled_view({rows * depth})
            .unchecked()
            .atomic_add({0}, in_sums(sum, rows, depth));
      };
      if (in.visits) {
        Visited(in, head, batch, j, true).each(add);
      } else {
        for (Tile i : call.seeing_rows(j, head_of(query).num_tiles(0))) add({i, j});
      }
    }
    const auto store = [&](const std::optional<Array>& grad, const Tile& sum) {
      if (!grad) return;
      View view = call.keys.of(*grad, key_head).tiled_view(key_tile);
      view.store({j, 0}, more ? sum + view.load({j, 0}).astype(f32) : sum);
    };
    store(grad_key, sum_key);
    store(grad_value, sum_value);
  };
  if (call.options.skips)
    when(j * cols < call.keys.length(), compute);
  else
    compute();
}

}  // namespace tile::attention
