// Gradients where tensor cores multiply: scores have a row a key. Probabilities and gradients of scores are
// then left operands as they stand in registers, for the gradients of value and key.
#include "kernels.h"

namespace tile::attention {
namespace {

// Probabilities of a tile of keys by queries: exp2(score * log2 e + shift).
class TurnedScores {
 public:
  TurnedScores(Array key, const std::optional<Array>& bias, Tile batch, Tile head, Tile scale, Tile offset,
               int rows, int cols)
      : scale_(scale.astype(f32)), seen_{offset, key.dim(2), rows, cols, true} {
    if (bias)
      (bias->dtype() == boolean ? seen_.mask : bias_) =
          (*bias)[{batch, head}].permute({1, 0}).tiled_view({cols, rows});
  }

  Tile probabilities(Tile product, Tile shift, Tile i, Tile j) const {
    if (!bias_) return seen_.only(exp2(fma(product, scale_ * log2_e, shift)), 0.0, i, j);
    Tile score = fma(product, scale_, bias_->load({j, i}).astype(f32));
    return seen_.only(exp2(fma(score, log2_e, shift)), 0.0, i, j);
  }

 private:
  Tile scale_;
  Seen seen_;
  std::optional<View> bias_;  // numbers; a mask is in seen_
};

// Blocks of 8 x 8 one behind the other: what a warp adds to memory at once is then in a row.
constexpr int side = 8;
Tile in_blocks(const Tile& sum, int rows, int depth) {
  return sum.reshape({rows / side, side, depth / side, side}).permute({0, 2, 1, 3}).reshape({rows * depth});
}
Tile out_of_blocks(const Tile& sum, int rows, int depth) {
  return sum.reshape({rows / side, depth / side, side, side}).permute({0, 2, 1, 3}).reshape({rows, depth});
}

}  // namespace

void backward_rows(std::optional<Array> grad_out, Array out, std::optional<Array> residual,
                   std::optional<Array> grad_lse, Array top, Array weight, Array shift, Array delta,
                   Tile scale, int rows, int depth) {
  Tile i = bid(0), head = bid(1), batch = bid(2);
  auto row_of = [&](Array array, double pad) {
    return array[{batch, head}].tiled_view({rows}).load({i}, pad).astype(f32);
  };
  Tile sum = row_deltas(grad_out, out, residual, grad_lse, batch, head, i, rows, depth, f32);
  // Past the last row, and in rows that attend to nothing: exp2(-inf) = 0.
  shift[{batch, head}].tiled_view({rows}).store({i}, row_of(top, inf) * -log2_e + log2(row_of(weight, 0)));
  delta[{batch, head}].tiled_view({rows}).store({i}, sum * -scale.astype(f32));
}

void backward_rounded(Array sums, Array grad_query, int rows, int depth) {
  Tile i = bid(0), head = bid(1), batch = bid(2);
  Tile sum = sums[{batch, head, i}].tiled_view({rows * depth}).load({0});
  grad_query[{batch, head}].tiled_view({rows, depth}).store({i, 0}, out_of_blocks(sum, rows, depth));
}

void backward_turned(Array query, Array key, Array value, std::optional<Array> bias,
                     std::optional<Array> grad_out, Array shift, Array delta, std::optional<Array> grad_key,
                     std::optional<Array> grad_value, std::optional<Array> sums, Tile scale, Tile offset,
                     Tile group, int rows, int cols, int depth) {
  Tile j = bid(0), key_head = bid(1), batch = bid(2), first_head = key_head * group;
  const DType operand = query.dtype();
  Shape query_tile{rows, depth}, key_tile{cols, depth};
  Tile factor = scale.astype(f32);
  Tile k = key[{batch, key_head}].tiled_view(key_tile).load({j, 0}),
       v = value[{batch, key_head}].tiled_view(key_tile).load({j, 0});
  Tile sum_key = zeros(key_tile, f32), sum_value = zeros(key_tile, f32);
  for (Tile head : range(first_head, first_head + group)) {
    TurnedScores scores(key, bias, batch, head, scale, offset, rows, cols);
    auto head_of = [&](Array array) { return array[{batch, head}].tiled_view(query_tile); };
    auto row_of = [&](Array array, Tile i) {
      return array[{batch, head}].tiled_view({rows}).load({i}).reshape({1, rows});
    };
    for (Tile i : range(max(j * cols - offset, 0) / rows, head_of(query).num_tiles(0))) {
      Tile q = head_of(query).load({i, 0});
      Tile p = scores.probabilities(mma(k, q.t(), zeros({cols, rows}, f32)), row_of(shift, i), i, j);
      Tile grad_p = zeros({cols, rows}, f32);
      if (grad_out) {
        Tile g = head_of(*grad_out).load({i, 0});
        if (grad_value) sum_value = mma(p.astype(operand), g, sum_value);
        grad_p = mma(v, g.t(), grad_p);
      }
      Tile grad_score = (p * fma(grad_p, factor, row_of(delta, i))).astype(operand);
      if (grad_key) sum_key = mma(grad_score, q, sum_key);
      if (!sums) continue;
      Tile sum = mma(grad_score.t(), k, zeros(query_tile, f32));
      (*sums)[{batch, head, i}].tiled_view({rows * depth}).atomic_add({0}, in_blocks(sum, rows, depth));
    }
  }
  if (grad_key) (*grad_key)[{batch, key_head}].tiled_view(key_tile).store({j, 0}, sum_key);
  if (grad_value) (*grad_value)[{batch, key_head}].tiled_view(key_tile).store({j, 0}, sum_value);
}

}  // namespace tile::attention
