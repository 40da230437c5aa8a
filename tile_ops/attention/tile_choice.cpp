// Chooses tiles by what registers and shared memory hold.
#include "tile_choice.h"

#include <algorithm>

#include "../common/tuning.h"

namespace tile::attention {

bool is_small(const Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}
// 64 is a size of its own, because tiles without padding are faster.
int head_columns(int64_t depth) { return depth <= 64 ? 64 : depth <= 128 ? 128 : 256; }
// Tensor cores multiply heads of the usual sizes without padding.
int gpu_depth(const Tensor& query, int64_t depth) {
  if (!is_small(query)) return head_columns(depth);
  for (int usual : {64, 80, 96, 128, 192})
    if (depth <= usual) return usual;
  return 256;
}

namespace {

// On a GPU two operands of a product are in shared memory, scores and sums in registers.
TileSize gpu_tile_size(const Tensor& query, int64_t depth, bool forward, Beside beside) {
  const int extent = gpu_depth(query, depth);
  const bool small = is_small(query);
  const bool is_double = query.scalar_type() == at::kDouble;
  if (is_double || is_recorded()) {
    // Several products are in shared memory: with 32 rows they took at most so many tiles.
    const int64_t needed = (is_double ? 12 * 8 : 8 * 4) * 32 * extent;
    if (most_shared_bytes(to_array_argument(query)) < needed) return {16, 16, extent};
    if (is_double) return {32, 32, extent};
  }
  if (is_differentiated()) return {extent > 64 || is_recorded() ? 32 : 64, 32, extent};
  // Tiles of float32 are twice as large: consumers' chips have no room for those of the usual rows.
  const int usual = extent > 128 ? 32 : 64;
  int rows = usual;
  const int64_t room = most_shared_bytes(to_array_argument(query));
  while (!small && rows > 16 && int64_t{4} * rows * extent * query.element_size() > room) rows /= 2;
  if (extent > 128 || rows < usual) return {rows, std::min(rows, 32), extent};
  // Sums are scaled and warps wait once a tile of keys, so these are as long as scores and sums fit.
  if (beside == Beside::options) return {small && forward ? 64 : 32, 32, extent};
  if (small && forward) return {128, extent > 64 && beside == Beside::bias ? 32 : 64, extent};
  return {64, small && extent > 64 ? 32 : 64, extent};
}

}  // namespace

// A CPU computes all rows of a tile, so a query of few rows gets a short one.
TileSize forward_tile_size(const Tensor& query, int64_t rows, int64_t depth, Beside beside) {
  if (!query.is_cpu()) return gpu_tile_size(query, depth, true, beside);
  return {rows <= 16 ? 16 : 128, cpu_keys, head_columns(depth)};
}
TileSize backward_tile_size(const Tensor& query, int64_t depth, int64_t least, Beside beside) {
  if (!query.is_cpu()) return gpu_tile_size(query, depth, false, beside);
  return {128, 128, head_columns(std::max(depth, least))};
}

// A thread holds sums of two products. Heads of 64 leave registers for a third group, which keeps the tensor
// cores busier. A short query would leave many of its rows empty. A bias of more than 16 bits would spill
// registers; tiles of a bias that each tile reads, random bits and addresses in tables need registers, too,
// and wide ones beside deep heads leave no shared memory.
TileSize group_tile_size(const Tensor& query, int64_t rows, int64_t depth, const OptionalTensor& bias,
                         bool numbers, bool more) {
  const int extent = gpu_depth(query, depth);
  const bool wide = bias && bias->element_size() > 2;
  if (extent > 128 || more || (extent > 64 && numbers && wide)) return {128, 64, extent};
  if (is_differentiated()) return {128, extent > 64 ? 32 : 64, extent};
  const bool third = extent <= 64 && rows >= tuning::attention_long_query && !wide && !numbers;
  return {third ? 192 : 128, 128, extent};
}

}  // namespace tile::attention
