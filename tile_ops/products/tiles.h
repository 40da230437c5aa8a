// The tiles of products: how many rows, columns and inner elements a block multiplies at once.
#pragma once
#include "tile/op.h"

namespace tile {

struct TileSize {
  int m, n, k;
  bool operator==(const TileSize&) const = default;
};

// A product of [m, k] by [k, n] for each of so many batches.
struct ProductShape {
  int64_t m = 1, n = 1, k = 1, batches = 1;
  bool two = false;  // two right operands, and a sum for each
};

// Tiles of mma.sync and FMA kernels.
TileSize gpu_tile_size(const ProductShape& shape, at::ScalarType type);
// Tiles of warpgroup instructions, for 16-bit operands: those with the lowest estimated time. `chained`
// kernels keep a second sum.
TileSize group_tile_size(const ProductShape& shape, bool chained);
// packed_bytes: the size of the packed left operand.
TileSize cpu_tile_size(const ProductShape& shape, int64_t packed_bytes);

}  // namespace tile
