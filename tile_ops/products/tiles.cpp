// Few sizes, so that few kernels are compiled. Fixed numbers: results do not depend on the machine.
#include "tiles.h"

#include <algorithm>
#include <limits>

#include "../common/tuning.h"

namespace tile {
namespace {

int64_t blocks_of(const ProductShape& shape, int64_t rows, int64_t columns) {
  return ceil_div(shape.m, rows) * ceil_div(shape.n, columns) * shape.batches;
}

// Estimates the cycles of a product whose tile is rows x columns, on a GPU that runs a block on each
// multiprocessor at a time.
int64_t group_cycles(const ProductShape& shape, int64_t rows, int64_t columns) {
  const int64_t multiplied = columns * (shape.two ? 2 : 1);
  // An iteration takes the time of its products or of its operands' way from the L2 cache, and some for
  // barriers.
  const int64_t products = rows * multiplied * tuning::group_depth / tuning::group_products_a_cycle;
  const int64_t operands = (rows + multiplied) * tuning::group_depth * 2 / tuning::l2_bytes_a_cycle;
  const int64_t iteration =
      std::max({products, operands, tuning::group_iteration_cycles}) + tuning::group_barrier_cycles;
  const int64_t stored = rows * multiplied / tuning::group_stores_a_cycle;
  return ceil_div(blocks_of(shape, rows, columns), tuning::multiprocessors) *
         (ceil_div(shape.k, tuning::group_depth) * iteration + stored);
}

}  // namespace

TileSize group_tile_size(const ProductShape& shape, bool chained) {
  struct Tile {
    int m, n;
  };
  // From large to small: of equal times the first wins, which reads operands less often.
  constexpr Tile tiles[] = {{128, 256}, {128, 192}, {128, 128}, {64, 128}, {128, 64}, {64, 64}};
  // The registers of a group hold 64 x 256 sums.
  const int most_columns = shape.two || chained ? 128 : 256;
  TileSize best{};
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Tile& tile : tiles) {
    if (tile.n > most_columns) continue;
    const int64_t cycles = group_cycles(shape, tile.m, tile.n);
    if (cycles >= least) continue;
    least = cycles;
    best = {tile.m, tile.n, tuning::group_depth};
  }
  return best;
}

TileSize gpu_tile_size(const ProductShape& shape, at::ScalarType type) {
  // Thin results first, then those too small to make a block for each thread. 16-bit floats and f64 tensor
  // cores read a ring of buffers; f32 is added up element by element.
  const bool small = type == at::kHalf || type == at::kBFloat16;
  const int k = small ? 64 : type == at::kDouble ? 16 : 32;
  if (shape.m <= 16) return {16, 128, k};
  if (shape.n <= 16) return {128, 16, k};
  // Two sums take as many registers as one of twice the columns.
  if (shape.two) return small ? TileSize{128, 64, k} : TileSize{64, 32, 16};
  const bool enough = blocks_of(shape, 128, 128) >= tuning::enough_large_tiles;
  return small && enough ? TileSize{128, 128, k} : TileSize{64, 64, k};
}

TileSize cpu_tile_size(const ProductShape& shape, int64_t packed_bytes) {
  if (shape.m <= 16) return {16, 256, 256};
  if (shape.n <= 16) return {128, 16, 256};
  const int64_t blocks = blocks_of(shape, 128, 256);
  if (blocks < 8) return {64, 64, 256};
  // Wide blocks pack x less often, high ones y, of which two products have two.
  if (shape.two) return blocks < 64 ? TileSize{128, 256, 256} : TileSize{256, 256, 256};
  // Threads share what they pack, so that blocks may be small and many, for threads that are not equally
  // fast: as long as a packed x stays.
  const bool small = shape.m > 128 && blocks_of(shape, 64, 128) <= tuning::cpu_product_blocks &&
                     packed_bytes <= tuning::cpu_packed_bytes;
  return small ? TileSize{64, 128, 256} : TileSize{128, 256, 256};
}

}  // namespace tile
