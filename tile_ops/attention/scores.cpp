// Scores of a tile of queries and keys, their masks, and which tiles need one.
#include "kernels.h"

namespace tile::attention {

Scores::Scores(Array query, Array key, const std::optional<Array>& bias, Tile batch, Tile head, Tile group, Tile scale,
               Tile offset, int rows, int cols, int depth)
    : query_(query[{batch, head}].tiled_view({rows, depth})),
      key_(key[{batch, head / group}].tiled_view({cols, depth})),
      scale_(scale.astype(sum_dtype(query.dtype()))),
      offset_(offset),
      keys_(key.dim(2)),
      rows_(rows),
      cols_(cols) {
  if (bias) bias_ = (*bias)[{batch, head}].tiled_view({rows, cols});
}

Tile Scores::at(Tile q, Tile k, Tile i, Tile j, bool edge) const {
  DType dtype = sum_dtype(q.dtype());
  Tile s = mma(q, k.t(), zeros({rows_, cols_}, dtype)) * scale_;
  if (bias_) {
    Tile bias = bias_->load({i, j});
    s = bias.dtype() == boolean ? where(bias, s, -inf) : s + bias.astype(dtype);
  }
  if (edge) {
    Tile row = i * rows_ + arange(rows_).reshape({rows_, 1}), col = j * cols_ + arange(cols_).reshape({1, cols_});
    s = where((col < keys_) & (col <= row + offset_), s, -inf);
  }
  return s;
}

Tile Scores::whole_keys(Tile i) const { return min(max(i * rows_ + offset_ + 1, 0), keys_) / cols_; }
Tile Scores::visible_keys(Tile i) const { return cdiv(min(max((i + 1) * rows_ + offset_, 0), keys_), cols_); }
Tile Scores::first_row(Tile j) const { return min(max(j * cols_ - offset_, 0) / rows_, row_tiles()); }
Tile Scores::first_whole_row(Tile j) const {
  Tile last = (j + 1) * cols_;
  Tile first = min(cdiv(max(last - 1 - offset_, 0), rows_), row_tiles());
  return where(last <= keys_, first, row_tiles());
}

}  // namespace tile::attention
