// Scores of a tile of queries and keys, and their masks.
#include <limits>

#include "kernels.h"

namespace tile::attention {

Scores::Scores(Array query, Array key, const std::optional<Array>& bias, Tile batch, Tile head, Tile group,
               Tile scale, Tile offset, int rows, int cols, int depth, DType operand)
    : query_(query[{batch, head}].tiled_view({rows, depth})),
      key_(key[{batch, head / group}].tiled_view({cols, depth})),
      scale_(scale.astype(sum_dtype(query.dtype()))),
      offset_(offset),
      keys_(key.dim(2)),
      rows_(rows),
      cols_(cols),
      operand_(operand) {
  if (!bias) return;
  bias_ = (*bias)[{batch, head}].tiled_view({rows, cols});
  bias_dtype_ = bias->dtype();
}

double least_number(DType dtype) {
  return dtype == f64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
}

Tile Scores::at(Tile product, const std::optional<Tile>& top, Tile i, Tile j) const {
  Tile s = !top ? product * scale_ : fma(product, scale_, -*top);
  if (bias_ && bias_dtype_ != boolean) {
    s = fma(product, scale_, bias_->load({i, j}).astype(s.dtype()));
    if (top) s -= *top;
  }
  return masked(s, -inf, i, j);
}

Tile Scores::greatest(Tile product, Tile i, Tile j) const {
  const double least = least_number(product.dtype());
  if (bias_ && bias_dtype_ != boolean) return at(product, std::nullopt, i, j).max(1, true);
  // A product a row is scaled, not one a score.
  return masked(product, least, i, j).max(1, true) * scale_;
}

Tile Scores::masked(Tile values, double hidden, Tile i, Tile j) const {
  if (bias_ && bias_dtype_ == boolean) values = where(bias_->load({i, j}), values, hidden);
  Tile row = i * rows_ + arange(rows_).reshape({rows_, 1}),
       col = j * cols_ + arange(cols_).reshape({1, cols_});
  return where((col < keys_) & (col <= row + offset_), values, hidden);
}

}  // namespace tile::attention
