// Where a tile of a slice lies, as coordinates of a tensor map: csrc/cuda/parameters.h explains them.
#pragma once
#include "cuda/device/tile.cuh"

namespace tile {

constexpr i32 slice_extent = 1 << 30;
struct SliceStart {
  i32 first, end;
};
// The sliced axis has `size` elements, and start is not negative. A tile outside of the slice begins at its end.
template <int step, class I>
TILE SliceStart slice_start(i32 size, i64 start, i64 stop, I index) {
  const i64 end = stop < size ? stop : size, first = start + tile_start<step>(index);
  const bool inside = index >= 0 && first < end;
  return {inside ? (i32)(first - end) + slice_extent : slice_extent, inside ? (i32)end : 0};
}

}  // namespace tile
