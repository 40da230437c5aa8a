// Saved statistics as functions of what they are of, for gradients of gradients.
#include "statistics_again.h"

#include "norm.h"

namespace tile {
namespace {

// The saved value, and a difference that is 0, whose derivative is that of the statistic. The derivative of
// rstd is -rstd^3 / 2 times that of the mean square of x - mean.
template <class Array, class Tile>
struct StatisticsAgain {
  Array x;
  std::optional<Array> mean;
  Array rstd;
  std::optional<Array> mean_again;
  Array rstd_again;
  std::optional<Tile> tiles;  // row tiles of a block
  int rows, columns, axis;
};
void statistics_again_kernel(const StatisticsAgain<Array, Tile>& of) {
  const auto& [x, mean, rstd, mean_again, rstd_again, tiles, rows, columns, axis] = of;
  const DType compute = rstd.dtype();
  Tile extent = x.dim(2).astype(compute);
  RowView in(x, bid(1), rows, columns, axis);
  const auto number = [&](const Array& array) { return RowView(array, bid(1), rows, 1, axis); };
  each_row_tile(x, tiles, rows, [&](const Tile& row) {
    const Shape one = axis ? Shape{rows, 1} : Shape{1, rows};
    Tile sum = zeros(one, compute), squares = zeros(one, compute);
    for (Tile k : range(in.steps())) {
      Tile v = in.load(row, k).astype(compute);
      Tile d =
          mean ? fma(inside_row(k, columns, axis, x.dim(2), compute), -number(*mean).load(row, 0), v) : v;
      sum += v.sum(axis, true);
      squares += (d * d).sum(axis, true);
    }
    const auto change = [&](const Tile& total) {
      Tile of_row = total / extent;
      return of_row - detach(of_row);
    };
    Tile r = number(rstd).load(row, 0);
    number(rstd_again).store(row, 0, fma(r * r * r * -0.5, change(squares), r));
    if (mean) number(*mean_again).store(row, 0, number(*mean).load(row, 0) + change(sum));
  });
}
Kernel statistics_again_of("norm_statistics_again", statistics_again_kernel);

}  // namespace

RowStatistics statistics_again(size_t axes, const at::Tensor& input, const RowStatistics& saved) {
  RowStatistics again{std::nullopt, result_like(saved.rstd)};
  TensorPointers statistics{&saved.rstd, &again.rstd};
  if (saved.mean) {
    again.mean = result_like(*saved.mean);
    statistics.push_back(&*saved.mean);
    statistics.push_back(&*again.mean);
  }
  on_norm_rows(
      axes, {&input}, statistics,
      [&](Rows& views) {
        const RowTile tile = row_tile_for_threads(views);
        const RowBlocks blocks = row_blocks(views, tile);
        views.each([&](int64_t) {
          const auto view = [&](size_t k) {
            return saved.mean ? std::optional(views.view(k)) : std::nullopt;
          };
          statistics_again_of.launch(blocks.grid, {.x = views.view(0),
                                                   .mean = view(3),
                                                   .rstd = views.view(1),
                                                   .mean_again = view(4),
                                                   .rstd_again = views.view(2),
                                                   .tiles = blocks.tiles,
                                                   .rows = tile.rows,
                                                   .columns = tile.columns,
                                                   .axis = views.transposed() ? 0 : 1});
        });
      },
      0);
  return again;
}

}  // namespace tile
