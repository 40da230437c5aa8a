// Each thread adds up products of the elements that it loads; the threads' sums are added at the end.
#include "thin_product.h"

#include "product_parts.h"

namespace tile {
namespace {

void thin_kernel(const ThinOf<Array, Tile>& of) {
  const auto& [x, y, other, epilogue, part_tiles, rows, bn, bk, at_once] = of;
  const DType compute = x.dtype() == f64 ? f64 : f32;
  Tile j = bid(0);
  PartOfBlock part = part_of_block(x, epilogue.out, true, part_tiles);
  const auto count = static_cast<size_t>(rows);
  std::vector<Tile> sums(count, zeros({bk, bn}, compute)), factors;
  if (other) factors = sums;
  for (Tile s : range(x.dim(2))) {
    const View left = x[{part.b0, part.b1, s}].tiled_view({1, bk});
    const auto right = [&](const Array& array) { return array[{part.b0, part.b1, s}].tiled_view({bk, bn}); };
    const View one = right(y);
    // The last tiles that are loaded at once may lie past the inner extent, where operands are zero.
    for (Tile first : range(part.low, part.high(cdiv(x.dim(4), bk)), at_once)) {
      std::vector<Tile> columns, factor_columns;
      for (int k = 0; k < at_once; ++k) {
        columns.push_back(one.load({first + k, j}));
        if (other) factor_columns.push_back(right(*other).load({first + k, j}));
      }
      for (int k = 0; k < at_once; ++k) {
        const auto tile = static_cast<size_t>(k);
        Tile column = columns[tile].astype(compute);
        std::optional<Tile> factor_column;
        if (other) factor_column = factor_columns[tile].astype(compute);
        for (size_t r = 0; r < count; ++r) {
          Tile row = left.load({static_cast<int>(r), first + k}).reshape({bk, 1}).astype(compute);
          sums[r] = fma(row, column, sums[r]);
          if (other) factors[r] = fma(row, *factor_column, factors[r]);
        }
      }
    }
  }
  for (size_t r = 0; r < count; ++r) {
    const auto total = [&](const Tile& sum) { return sum.sum(0).reshape({1, bn}); };
    std::optional<Tile> factor;
    if (other) factor = total(factors[r]);
    finish(epilogue, total(sums[r]), factor, {part.slot, part.b1, static_cast<int>(r), j});
  }
}
Kernel kernel("matmul_thin", thin_kernel);

}  // namespace

void launch_thin(Grid grid, const detail::Launched<ThinOf<Array, Tile>>& of) { kernel.launch(grid, of); }

}  // namespace tile
