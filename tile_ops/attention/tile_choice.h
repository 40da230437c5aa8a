// The tiles of queries and keys of attention's kernels. They have few sizes, because each is another kernel.
#pragma once
#include "../common/derivation.h"
#include "host_problem.h"

namespace tile::attention {

bool is_small(const Tensor& tensor);  // floats of 16 bits
// The keys of a CPU's tile: as many for any query, so that packed samples and single ones have equal bits.
inline constexpr int cpu_keys = 128;
// Returns how many columns a tile of a head has, in general and on a GPU.
int head_columns(int64_t depth);
int gpu_depth(const Tensor& query, int64_t depth);
// The forward's tile where no warpgroup instructions run.
TileSize forward_tile_size(const Tensor& query, int64_t rows, int64_t depth, Beside beside);
// The gradient's. least: the smallest head dim of a tile on a CPU.
TileSize backward_tile_size(const Tensor& query, int64_t depth, int64_t least, Beside beside);
// The forward's tile on warpgroup instructions. numbers: each tile reads a bias. more: dropout or tables take
// registers.
TileSize group_tile_size(const Tensor& query, int64_t rows, int64_t depth, const OptionalTensor& bias,
                         bool numbers, bool more);

}  // namespace tile::attention
