// Traces the epilogue.
#include "product_epilogue.h"

#include <functional>

namespace tile {

namespace {

// Stores the results of a text at tile `at` of the product `acc`.
void store_expressed(const ExpressionOf<Array, Tile>& of, const Array& out, const Tile& acc,
                     const std::optional<Tile>& factor, const TileIndex& at) {
  const auto& [text, places, tensors, numbers, outs] = of;
  const auto& [b0, b1, i, j] = at;
  std::vector<std::function<Tile()>> values{[&] { return acc; }};
  if (factor) values.emplace_back([&] { return *factor; });
  const auto result = [&](int k) -> const Array& { return k == 0 ? out : outs[static_cast<size_t>(k) - 1]; };
  auto next = tensors.begin();
  for (const Place place : places)
    values.emplace_back([&, array = place == elsewhere ? *next++ : result(place)] {
      Tile tile = array[{b0, b1}].tiled_view(acc.shape()).load({i, j});
      return tile.dtype() == DType::boolean ? tile : tile.astype(acc.dtype());
    });
  for (const Tile& number : numbers) values.emplace_back([&] { return number.astype(acc.dtype()); });
  const std::vector<Tile> results = text->all(acc.dtype(), [&](size_t name) { return values[name](); });
  for (size_t k = 0; k < results.size(); ++k)
    result(static_cast<int>(k))[{b0, b1}].tiled_view(acc.shape()).store({i, j}, results[k]);
}

}  // namespace

void finish(const EpilogueOf<Array, Tile>& of, Tile acc, const std::optional<Tile>& factor,
            const TileIndex& at) {
  const auto& [bias, residual, pre, other_pre, out, alpha, activation, scaled, accumulate, expression] = of;
  const auto& [b0, b1, i, j] = at;
  const DType compute = acc.dtype();
  const auto tiles = [&](const Array& array) { return array[{b0, b1}].tiled_view(acc.shape()); };
  if (scaled) acc *= alpha.astype(compute);
  if (bias) acc += tiles(*bias).load({i, j}).astype(compute);
  if (pre) tiles(*pre).store({i, j}, acc);
  if (expression) return store_expressed(*expression, out, acc, factor, at);
  acc = activate(activation, acc);
  if (factor) {
    if (other_pre) tiles(*other_pre).store({i, j}, *factor);
    acc *= *factor;
  }
  if (residual) acc += tiles(*residual).load({i, j}).astype(compute);
  if (accumulate) acc += tiles(out).load({i, j}).astype(compute);
  tiles(out).store({i, j}, acc);
}

}  // namespace tile
