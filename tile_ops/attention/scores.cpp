// Scores of a tile of queries and keys, and their masks.
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
  if (bias) bias_ = (*bias)[{batch, head}].tiled_view({rows, cols});
}

Tile Scores::at(Tile product, const std::optional<Tile>& top, Tile i, Tile j) const {
  Tile s = !top ? product * scale_ : fma(product, scale_, -*top);
  if (bias_) {
    Tile bias = bias_->load({i, j});
    if (bias.dtype() == boolean) {
      s = where(bias, s, -inf);
    } else {
      s = fma(product, scale_, bias.astype(s.dtype()));
      if (top) s -= *top;
    }
  }
  Tile row = i * rows_ + arange(rows_).reshape({rows_, 1}),
       col = j * cols_ + arange(cols_).reshape({1, cols_});
  return where((col < keys_) & (col <= row + offset_), s, -inf);
}

}  // namespace tile::attention
