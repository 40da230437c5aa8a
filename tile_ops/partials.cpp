// Adding up the parts of a sum, in the order of the blocks that made them.
#include "partials.h"

#include <algorithm>

namespace tile {
namespace {

void sum_parts_kernel(Array parts, Array out, int parts_a_tile, int columns) {
  View in = parts.tiled_view({parts_a_tile, columns});
  Tile total = zeros({columns}, f64);
  for (Tile k : range(in.num_tiles(0))) total += in.load({k, bid(0)}).astype(f64).sum(0);
  out.tiled_view({columns}).store({bid(0)}, total);
}

Kernel sum_kernel("sum_parts", sum_parts_kernel);

}  // namespace

Parts parts(int64_t tiles, int64_t slices, int64_t wanted) {
  const int64_t each =
      std::max<int64_t>(1, ceil_div(tiles, std::max<int64_t>(1, wanted / std::max<int64_t>(slices, 1))));
  return {ceil_div(tiles, each), each};
}

void sum_parts(const at::Tensor& parts, const at::Tensor& out) {
  if (out.numel() == 0) return;
  // A gradient is dense, in any order of its axes, and so are the parts: both are one axis.
  ArrayArgument flat = to_array_argument(out);
  flat.rank = 1;
  flat.sizes[0] = out.numel();
  flat.strides[0] = 1;
  // On a GPU narrow tiles make blocks enough.
  const int columns = out.is_cpu() ? 256 : 32;
  sum_kernel.launch({ceil_div(out.numel(), columns)}, parts, flat, out.is_cpu() ? 64 : 256, columns);
}

}  // namespace tile
