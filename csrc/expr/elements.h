// Treats arrays of one shape as matrices of tiles, so that elementwise operators handle tensors of any rank
// and strides.
#pragma once
#include <functional>

#include "expr/rows.h"

namespace tile {

using ElementArrays = c10::SmallVector<ArrayArgument, 5>;

struct ElementTile {
  int rows, columns;
};

// Calls f(views, grid, tile) for arrays of one shape, the first of which is a result. It is called once,
// unless there are axes that a view cannot hold or more elements than an extent may have. Block (x, y, z) has
// tile (y, x) of slice z of each view.
void each_element_tile(const ElementArrays& arrays,
                       const std::function<void(const Rows& views, const Grid& grid, ElementTile tile)>& f);

}  // namespace tile
