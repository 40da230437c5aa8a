// Adding up the parts of a sum, in the order of the blocks that made them.
#include "partials.h"

#include <algorithm>
#include <bit>

namespace tile {
namespace {

void sum_parts_kernel(Array parts, Array out, int parts_a_tile, int columns) {
  View in = parts.tiled_view({parts_a_tile, columns});
  Tile total = zeros({columns}, f64);
  for (Tile k : range(in.num_tiles(0))) total += in.load({k, bid(0)}).astype(f64).sum(0);
  out.tiled_view({columns}).store({bid(0)}, total);
}

void sum_both_kernel(Array first, Array second, Array first_out, Array second_out, int parts_a_tile,
                     int columns) {
  sum_parts_kernel(first, first_out, parts_a_tile, columns);
  sum_parts_kernel(second, second_out, parts_a_tile, columns);
}

Kernel sum_kernel("sum_parts", sum_parts_kernel);
Kernel sum_both("sum_parts", sum_both_kernel);

// A gradient is dense, in any order of its axes, and so are the parts: both are one axis.
ArrayArgument flat(const at::Tensor& out) {
  ArrayArgument flat = to_array_argument(out);
  flat.rank = 1;
  flat.sizes[0] = out.numel();
  flat.strides[0] = 1;
  return flat;
}

}  // namespace

Parts parts(int64_t tiles, int64_t slices, int64_t wanted) {
  const int64_t each =
      std::max<int64_t>(1, ceil_div(tiles, std::max<int64_t>(1, wanted / std::max<int64_t>(slices, 1))));
  return {ceil_div(tiles, each), each};
}

void sum_parts(const at::Tensor& parts, const at::Tensor& out) {
  if (out.numel() == 0) return;
  // On a GPU narrow tiles make blocks enough.
  const int columns = out.is_cpu() ? 256 : 32;
  sum_kernel.launch({ceil_div(out.numel(), columns)}, parts, flat(out), out.is_cpu() ? 64 : 256, columns);
}

void sum_parts(const Summed& first, const Summed& second) {
  const bool both = first.out && second.out && !first.parts.is_cpu() && first.out->numel();
  if (!both) {
    for (const Summed& each : {first, second})
      if (each.out) sum_parts(each.parts, *each.out);
    return;
  }
  constexpr int columns = 32;
  const auto together = static_cast<int>(
      std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(first.parts.size(0), 8, 256))));
  sum_both.launch({ceil_div(first.out->numel(), columns)}, first.parts, second.parts, flat(*first.out),
                  flat(*second.out), together, columns);
}

}  // namespace tile
