// Warps of a product: whole rows each, or a grid of them that is about square.
#include "cuda/mma_plan.h"

#include <algorithm>

#include "cuda/staging.h"
#include "ir/walk.h"

namespace tile::cuda {

MmaPlan mma_plan(const Shape& shape, int warps, bool by_rows) {
  const int m = static_cast<int>(shape[0] / 16), n = static_cast<int>(shape[1] / 8);
  MmaPlan best{1, 1, m, n};
  int64_t best_cost = INT64_MAX;
  for (int warps_m = 1; warps_m <= warps; warps_m *= 2)
    for (int warps_n = 1; warps_m * warps_n <= warps; warps_n *= 2) {
      // Columns come in pairs of blocks.
      if (m % warps_m != 0 || n % (2 * warps_n) != 0 || (by_rows && warps_n != 1)) continue;
      const int blocks_m = m / warps_m, blocks_n = n / warps_n;
      // What a warp reads a step of k, with idle warps first.
      const int64_t cost = int64_t{warps / (warps_m * warps_n)} * 10000 + 2 * blocks_m + blocks_n;
      if (cost < best_cost) best = {warps_m, warps_n, blocks_m, blocks_n}, best_cost = cost;
    }
  return best;
}

Layout accumulator_layout(const Shape& shape, const MmaPlan& plan) {
  return Layout(shape, {{Level::reg, 1, 2, 1, 1},
                        {Level::reg, 2, 2, 0, 8},
                        {Level::reg, 4, plan.blocks_n, 1, 8},
                        {Level::reg, 4 * plan.blocks_n, plan.blocks_m, 0, 16},
                        {Level::lane, 1, 4, 1, 2},
                        {Level::lane, 4, 8, 0, 1},
                        {Level::warp, 1, plan.warps_n, 1, int64_t{8} * plan.blocks_n},
                        {Level::warp, plan.warps_n, plan.warps_m, 0, int64_t{16} * plan.blocks_m}});
}

bool MmaKernel::multiplies_by_rows(const Op& mma) const {
  const MmaOperand left = mma_operand(mma.operands[0]);
  const Op* made = left.value->definition;
  return by_rows && !(left.turned && made && !made->is("load"));
}

namespace {

// Accumulators of a thread, where a warp has 32 rows of each product: the most of a block of ops.
int64_t registers_of_rows(const MmaKernel& kernel, const Block& block) {
  int64_t own = 0, most = 0;
  for (const auto& op : block.ops) {
    if (op->is("mma") && on_tensor_cores(*op) && kernel.multiplies_by_rows(*op)) own += op->type(2).shape[1];
    for (const auto& region : op->regions) most = std::max(most, registers_of_rows(kernel, *region));
  }
  return std::max(own, most);
}

}  // namespace

MmaKernel mma_kernel(const Function& function) {
  MmaKernel kernel;
  int64_t most_rows = 0, most = 0;
  walk(function.body(), [&](const Op& op) {
    // Products of products, and reductions beside them, want rows.
    if (op.is("reduce_sum") || op.is("reduce_max")) kernel.by_rows = true;
    if (!op.is("mma") || !on_tensor_cores(op)) return;
    kernel.any = true;
    const Shape& shape = op.type(2).shape;
    most_rows = std::max(most_rows, shape[0]);
    most = std::max(most, shape[0] * shape[1]);
    const Value* left = mma_operand(op.operands[0]).value;
    if (left->definition && !left->definition->is("load")) kernel.by_rows = true;
  });
  if (!kernel.any) return kernel;
  // 128 sums a thread, or 32 rows a warp: what a warp reads from shared memory then serves many products. 16
  // rows where their sums would leave too few registers for fragments.
  constexpr int64_t most_registers = 208;
  const int rows = registers_of_rows(kernel, function.body()) > most_registers ? 16 : 32;
  const int64_t wanted = kernel.by_rows ? most_rows / rows : most / 4096;
  while (kernel.warps < MmaKernel::most_warps && kernel.warps * 2 <= std::max<int64_t>(wanted, 4))
    kernel.warps *= 2;
  return kernel;
}

}  // namespace tile::cuda
