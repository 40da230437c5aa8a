// Traces the epilogue.
#include "product_epilogue.h"

namespace tile {

void finish(const EpilogueOf<Array, Tile>& of, Tile acc, const std::optional<Tile>& factor,
            const TileIndex& at) {
  const auto& [bias, residual, pre, other_pre, out, alpha, activation, scaled, accumulate, expression] = of;
  const auto& [b0, b1, i, j] = at;
  const DType compute = acc.dtype();
  const auto tiles = [&](const Array& array) { return array[{b0, b1}].tiled_view(acc.shape()); };
  if (scaled) acc *= alpha.astype(compute);
  if (bias) acc += tiles(*bias).load({i, j}).astype(compute);
  if (pre) tiles(*pre).store({i, j}, acc);
  acc = expression ? expressed(*expression, acc, b0, b1, i, j) : activate(activation, acc);
  if (factor) {
    if (other_pre) tiles(*other_pre).store({i, j}, *factor);
    acc *= *factor;
  }
  if (residual) acc += tiles(*residual).load({i, j}).astype(compute);
  if (accumulate) acc += tiles(out).load({i, j}).astype(compute);
  tiles(out).store({i, j}, acc);
}

}  // namespace tile
