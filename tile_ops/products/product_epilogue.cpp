// Traces the epilogue.
#include "product_epilogue.h"

namespace tile {

void finish(const EpilogueOf<Array, Tile>& of, Tile acc, const std::optional<Tile>& factor,
            const TileIndex& at) {
  const auto& [bias, residual, pre, other_pre, out, alpha, activation, scaled, accumulate, expression] = of;
  const auto& [b0, b1, i, j] = at;
  std::vector<Tile> more;  // results of an expression after the first
  const auto tiles = [&](const Array& array) { return array[{b0, b1}].tiled_view(acc.shape()); };
  if (scaled) acc *= alpha.astype(acc.dtype());
  if (bias) acc += tiles(*bias).load({i, j}).astype(acc.dtype());
  if (pre) tiles(*pre).store({i, j}, acc);
  acc = expression ? expressed(*expression, out, acc, factor, at, more) : activate(activation, acc);
  if (factor && !expression) {
    if (other_pre) tiles(*other_pre).store({i, j}, *factor);
    acc *= *factor;
  }
  if (residual) acc += tiles(*residual).load({i, j}).astype(acc.dtype());
  if (accumulate) acc += tiles(out).load({i, j}).astype(acc.dtype());
  tiles(out).store({i, j}, acc);
  for (size_t k = 0; k < more.size(); ++k) tiles(expression->outs[k]).store({i, j}, more[k]);
}

}  // namespace tile
