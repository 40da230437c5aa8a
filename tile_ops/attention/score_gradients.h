// Probabilities and gradients of the scores of a tile, which kernels of gradients share.
#pragma once
#include "kernels.h"

namespace tile::attention {

// Probabilities and gradients of scores for a tile of one head; kernels without warpgroup instructions of
// their own use it.
class Gradients {
 public:
  Gradients(const Call& call, const Incoming<Array>& from, Tile head, int depth, DType operand)
      : scores(call, from.in, head, depth, operand),
        value_(call.keys.of(from.in.value, head / call.group).tiled_view({call.cols, depth})),
        top_(call.queries.of(from.top, head).tiled_view({call.rows})),
        weight_(call.queries.of(from.weight, head).tiled_view({call.rows})),
        delta_(call.queries.of(from.delta, head).tiled_view({call.rows})),
        operand_(operand) {
    if (from.grad_out) grad_out_ = call.queries.of(*from.grad_out, head).tiled_view({call.rows, depth});
  }

  struct At {
    Tile q, k, product;
    Tile p;                         // what dropout left of it
    Tile grad_score, grad_product;  // before the scale
    std::optional<Tile> grad_out;
  };
  At at(const Place& place) const {
    const auto& [i, j, whole, adds, bias] = place;
    At t{scores.query(i), scores.key(j), Tile(), Tile(), Tile(), Tile(), std::nullopt};
    std::optional<Tile> slope;
    // Rows past the end and rows that attend to nothing: exp(s - inf) = 0.
    t.product = scores.product(t.q, t.k);
    Tile e = scores.exponentials(t.product, column(top_.load({i}, inf)), place, &slope);
    Tile p = e * column(weight_.load({i}));
    std::optional<Tile> kept = scores.rule.kept(i, j);
    t.p = scores.rule.only_kept(p, kept);
    Tile grad_p = zeros(e.shape(), e.dtype());
    if (grad_out_) {
      t.grad_out = grad_out_->load({i, 0}).astype(operand_);
      grad_p = mma(*t.grad_out, value_.load({j, 0}).astype(operand_).t(), grad_p);
    }
    grad_p = scores.rule.only_kept(grad_p, kept);
    t.grad_score = p * (grad_p - column(delta_.load({i})));
    t.grad_product = slope ? t.grad_score * *slope : t.grad_score;
    return t;
  }

  Scores scores;

 private:
  static Tile column(Tile t) { return t.reshape({t.shape(0), 1}); }
  View value_, top_, weight_, delta_;
  std::optional<View> grad_out_;
  DType operand_;
};

// Along an axis of a gradient a block has its own index, or all of them.
inline Range all_or_one(Tile own, Tile extent, Tile index) {
  Tile one = own == extent;
  return range(where(one, index, 0), where(one, index + 1, extent));
}

}  // namespace tile::attention
