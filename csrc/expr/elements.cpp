// Chooses the order of axes and the extents of tiles for elementwise operators.
#include "expr/elements.h"

#include <algorithm>
#include <numeric>

namespace tile {
namespace {

// Returns, as bits, the innermost axes that are one contiguous axis in every array. The axes of the first
// array are in the order of its strides.
uint32_t inner_axes(const ElementArrays& arrays) {
  const ArrayArgument& first = arrays.front();
  uint32_t inner = 0;
  for (int i = first.rank, last = -1; i-- > 0;) {
    if (first.sizes[i] == 1) continue;
    const auto joins = [&](const ArrayArgument& array) {
      return array.strides[i] == array.sizes[last] * array.strides[last];
    };
    if (last >= 0 && !std::all_of(arrays.begin(), arrays.end(), joins)) break;
    inner |= 1u << i;
    last = i;
  }
  return inner;
}

ElementTile element_tile(const Rows& views, size_t count) {
  // If memory runs along the rows of one array, a tile contains whole cache lines in both directions.
  for (size_t k = 1; k < count; ++k)
    if (const auto& strides = views.view(k).strides;
        strides[1] > 0 && strides[1] < strides[2] && views.rows() > 1)
      return {64, 64};
  const int64_t columns = views.columns();
  if (views.on_gpu()) {
    if (views.rows() == 1 || columns > 512) return {1, 2048};
    return columns <= 64 ? ElementTile{32, 64} : ElementTile{8, 256};
  }
  if (views.rows() == 1) return {1, 16384};
  if (columns <= 64) return {256, 64};
  return columns <= 1024 ? ElementTile{16, 1024} : ElementTile{4, 4096};
}

}  // namespace

void each_element_tile(const ElementArrays& given,
                       const std::function<void(const Rows& views, const Grid& grid, ElementTile tile)>& f) {
  ElementArrays arrays = given;
  const int rank = arrays.front().rank;
  std::array<int, max_array_rank> order;
  std::iota(order.begin(), order.begin() + rank, 0);
  std::stable_sort(order.begin(), order.begin() + rank,
                   [&](int a, int b) { return arrays.front().strides[a] > arrays.front().strides[b]; });
  int64_t elements = 1;
  for (int i = 0; i < rank; ++i) elements *= arrays.front().sizes[i];
  if (elements > max_extent) {
    const int axis =
        *std::find_if(order.begin(), order.end(), [&](int i) { return arrays.front().sizes[i] > 1; });
    ElementArrays rest = given;
    for (size_t k = 0; k < arrays.size(); ++k) {
      const int64_t size = given[k].sizes[axis], half = size / 2;
      arrays[k] = narrowed(given[k], axis, 0, half);
      rest[k] = narrowed(given[k], axis, half, size - half);
    }
    each_element_tile(arrays, f);
    return each_element_tile(rest, f);
  }
  for (ArrayArgument& array : arrays) {
    const ArrayArgument unordered = array;
    for (int i = 0; i < rank; ++i)
      array.sizes[i] = unordered.sizes[order[i]], array.strides[i] = unordered.strides[order[i]];
  }
  Rows views(arrays, inner_axes(arrays));
  if (views.empty()) return;
  const ElementTile tile = element_tile(views, arrays.size());
  const Grid grid{ceil_div(views.columns(), tile.columns), ceil_div(views.rows(), tile.rows), views.slices()};
  views.each([&](int64_t) { f(views, grid, tile); });
}

}  // namespace tile
