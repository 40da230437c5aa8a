// Adding up the parts of a sum, in the order of the blocks that made them.
#include "partial_sums.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "derivation.h"

namespace tile {
namespace {

// Block (i, s, n): columns i of image n of sum s. Arrays are [images, parts, columns] and [images, columns].
// single: a tile has all parts.
void sum_parts_kernel(Array parts, Array out, std::optional<Array> more_parts, std::optional<Array> more_out,
                      bool single, int parts_a_tile, int columns) {
  const auto sum = [&](const Array& from, const Array& to) {
    View in = from[{bid(2)}].tiled_view({parts_a_tile, columns});
    const auto tile = [&](const Operand& k) { return in.load({k, bid(0)}).astype(f64).sum(0); };
    Tile total = single ? tile(0) : zeros({columns}, f64);
    if (!single)
      for (Tile k : range(in.num_tiles(0))) total += tile(k);
    to[{bid(2)}].tiled_view({columns}).store({bid(0)}, total);
  };
  if (!more_parts) return sum(parts, out);
  when(
      bid(1) == 0, [&] { sum(parts, out); }, [&] { sum(*more_parts, *more_out); });
}

Kernel sum_kernel("sum_partials", sum_parts_kernel);

// [p, n] as [1, p, n].
ArrayArgument of_images(const at::Tensor& parts) {
  ArrayArgument array = to_array_argument(parts);
  if (array.rank == 3) return array;
  for (size_t axis = 2; axis > 0; --axis)
    array.sizes[axis] = array.sizes[axis - 1], array.strides[axis] = array.strides[axis - 1];
  array.rank = 3;
  array.sizes[0] = 1;
  array.strides[0] = array.sizes[1] * array.strides[1];
  return array;
}
// A gradient is dense, in any order of its axes, and so are the parts: both are one axis.
ArrayArgument flat(const at::Tensor& out, int64_t images) {
  ArrayArgument all = to_array_argument(out);
  all.rank = 2;
  all.sizes[0] = images;
  all.sizes[1] = all.strides[0] = out.numel() / images;
  all.strides[1] = 1;
  return all;
}

}  // namespace

Parts parts(int64_t tiles, int64_t slices, int64_t wanted) {
  const int64_t each =
      std::max<int64_t>(1, ceil_div(tiles, std::max<int64_t>(1, wanted / std::max<int64_t>(slices, 1))));
  return {ceil_div(tiles, each), each};
}

void sum_partials(std::vector<PartialSum> sums) {
  std::erase_if(sums, [](const PartialSum& sum) { return sum.out.numel() == 0; });
  // A derivative needs a proof that blocks store different elements.
  const size_t together = is_recorded() ? 1 : 2;
  for (size_t i = 0; i < sums.size(); i += together) {
    const PartialSum &first = sums[i], *second = together > 1 && i + 1 < sums.size() ? &sums[i + 1] : nullptr;
    const ArrayArgument parts = of_images(first.parts);
    const int64_t images = parts.sizes[0], count = parts.sizes[1], width = parts.sizes[2];
    // On a GPU narrow tiles make blocks enough; on a CPU where there are few columns.
    constexpr int64_t few = 4096;
    const bool cpu = first.out.is_cpu();
    const int64_t gpu_rows = std::clamp<int64_t>(count, 8, 256);
    const int cpu_columns = width <= few ? 64 : 256, columns = cpu ? cpu_columns : 32,
              rows = cpu ? 64 : static_cast<int>(std::bit_ceil(static_cast<uint64_t>(gpu_rows)));
    sum_kernel.launch({ceil_div(width, columns), second ? 2 : 1, images}, parts, flat(first.out, images),
                      second ? std::optional(of_images(second->parts)) : std::nullopt,
                      second ? std::optional(flat(second->out, images)) : std::nullopt, !cpu && count <= rows,
                      rows, columns);
  }
}

}  // namespace tile
