// Scores of a tile of queries and keys, and their masks.
#include <limits>

#include "kernels.h"

namespace tile::attention {

Scores::Scores(Array query, Array key, const std::optional<Array>& bias, Tile batch, Tile head, Tile group,
               Tile scale, Tile offset, int rows, int cols, int depth, DType operand)
    : query_(query[{batch, head}].tiled_view({rows, depth})),
      key_(key[{batch, head / group}].tiled_view({cols, depth})),
      scale_(scale.astype(sum_dtype(query.dtype()))),
      seen_{offset, key.dim(2), rows, cols},
      operand_(operand) {
  if (bias) (bias->dtype() == boolean ? seen_.mask : bias_) = (*bias)[{batch, head}].tiled_view({rows, cols});
}

double least_number(DType dtype) {
  return dtype == f64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
}

Tile Scores::greatest(Tile product, Tile i, Tile j, bool negative) const {
  const double least = least_number(product.dtype());
  // Without numbers to add, a product a row is scaled, not one a score.
  if (!bias_)
    return (negative ? seen_.only(product, -least, i, j).min(1, true)
                     : seen_.only(product, least, i, j).max(1, true)) *
           scale_;
  return seen_.only(fma(product, scale_, added(i, j)), least, i, j).max(1, true);
}

Tile Scores::exponential(Tile x) const { return to_base_2() ? exp2(x * log2_e) : exp(x); }

Tile Scores::exponentials(Tile product, Tile top, Tile i, Tile j) const {
  // The scores have the product's rounding alone where a fused multiply-add takes off `top`. Masked after
  // exp, which is slow where its results are too small.
  if (!bias_ && to_base_2()) return seen_.only(exp2(fma(product, scale_ * log2_e, top * -log2_e)), 0.0, i, j);
  Tile s = bias_ ? fma(product, scale_, added(i, j)) - top : fma(product, scale_, -top);
  return seen_.only(exp(s), 0.0, i, j);
}

Tile Scores::added(Tile i, Tile j) const { return bias_->load({i, j}).astype(scale_.dtype()); }

Tile Seen::only(Tile values, double hidden, Tile i, Tile j) const {
  if (mask) values = where(turned ? mask->load({j, i}) : mask->load({i, j}), values, hidden);
  Tile row = i * rows + arange(rows).reshape(turned ? Shape{1, rows} : Shape{rows, 1}),
       col = j * cols + arange(cols).reshape(turned ? Shape{cols, 1} : Shape{1, cols});
  return where((col < keys) & (col <= row + offset), values, hidden);
}

}  // namespace tile::attention
