// Broadcasts tensors to arrays of a larger shape, and gives the tiles of elementwise kernels.
#pragma once
#include "expr/elements.h"

namespace tile {

// Returns the tensor as an array of this shape, with stride 0 along broadcast axes. Throws if it does not fit
// the shape.
ArrayArgument broadcast_array(const at::Tensor& tensor, at::IntArrayRef shape);

// Returns the tile of this block in a view from each_element_tile.
inline View element_view(const Array& array, ElementTile tile) {
  return array[{bid(2)}].tiled_view({tile.rows, tile.columns});
}
inline Tile load_element_tile(const Array& array, ElementTile tile) {
  return element_view(array, tile).load({bid(1), bid(0)});
}
inline void store_element_tile(const Array& array, ElementTile tile, const Tile& value) {
  element_view(array, tile).store({bid(1), bid(0)}, value);
}

}  // namespace tile
