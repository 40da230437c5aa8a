// Warps of a product: whole rows each, or a grid of them that is about square.
#include "cuda/mma_plan.h"

#include <algorithm>

#include "ir/walk.h"

namespace tile::cuda {

MmaPlan mma_plan(const Shape& shape, int warps, bool by_rows) {
  const int m = static_cast<int>(shape[0] / MmaInstruction::rows),
            n = static_cast<int>(shape[1] / MmaInstruction::columns);
  MmaPlan best{1, 1, m, n};
  int64_t best_cost = INT64_MAX;
  for (int warps_m = 1; warps_m <= warps; warps_m *= 2)
    for (int warps_n = 1; warps_m * warps_n <= warps; warps_n *= 2) {
      // Columns come in pairs of blocks, where they can.
      const bool pairs = n % (2 * warps_n) == 0 || warps_n == 1;
      if (m % warps_m != 0 || !pairs || (by_rows && warps_n != 1)) continue;
      const int blocks_m = m / warps_m, blocks_n = n / warps_n;
      // What a warp reads a step of k, with idle warps first.
      const int64_t cost = int64_t{warps / (warps_m * warps_n)} * 10000 + 2 * blocks_m + blocks_n;
      if (cost < best_cost) best = {warps_m, warps_n, blocks_m, blocks_n}, best_cost = cost;
    }
  return best;
}

Layout accumulator_layout(const Shape& shape, const MmaPlan& plan) {
  // Neighbouring columns that a thread has of one block, or of two.
  const int side = plan.paired_columns ? 4 : 2;
  return Layout(shape, {{Level::reg, 1, side, 1, 1},
                        {Level::reg, side, 2, 0, plan.paired_rows ? 1 : 8},
                        {Level::reg, 2 * side, 2 * plan.blocks_n / side, 1, 4 * side},
                        {Level::reg, 4 * plan.blocks_n, plan.blocks_m, 0, 16},
                        {Level::lane, 1, 4, 1, side},
                        {Level::lane, 4, 8, 0, plan.paired_rows ? 2 : 1},
                        {Level::warp, 1, plan.warps_n, 1, int64_t{8} * plan.blocks_n},
                        {Level::warp, plan.warps_n, plan.warps_m, 0, int64_t{16} * plan.blocks_m}});
}

bool MmaKernel::multiplies_by_rows(const Op& mma) const {
  const MmaOperand left = mma_operand(mma.operands[0]);
  const Op* made = left.value->definition;
  return by_rows && !(left.turned && made && !made->is("load"));
}

namespace {

// Registers of one of its sums.
int words_of(const Op& mma) { return info(mma.type(2).dtype).bytes / 4; }

// Accumulators of a thread, where a warp has 32 rows of each product: the most of a block of ops.
int64_t registers_of_rows(const MmaKernel& kernel, const StagingPlan& staging, const Block& block) {
  int64_t own = 0, most = 0;
  for (const auto& op : block.ops) {
    if (op->is("mma") && staging.instruction(*op) && kernel.multiplies_by_rows(*op))
      own += op->type(2).shape[1] * words_of(*op);
    for (const auto& region : op->regions) most = std::max(most, registers_of_rows(kernel, staging, *region));
  }
  return std::max(own, most);
}

}  // namespace

MmaKernel mma_kernel(const Function& function, const StagingPlan& staging) {
  MmaKernel kernel;
  int64_t most_rows = 0, most = 0;  // rows, warps
  walk(function.body(), [&](const Op& op) {
    // Products of products, and reductions beside them, want rows.
    if (op.is("reduce_sum") || op.is("reduce_max")) kernel.by_rows = true;
    if (!op.is("mma") || !staging.instruction(op)) return;
    kernel.any = true;
    const Shape& shape = op.type(2).shape;
    most_rows = std::max(most_rows, shape[0]);
    most = std::max(most, shape[0] * shape[1] / (32 * staging.instruction(op)->sums));
    const Value* left = mma_operand(op.operands[0]).value;
    if (left->definition && !left->definition->is("load")) kernel.by_rows = true;
  });
  if (!kernel.any) return kernel;
  // As many sums as a thread may have, or 32 rows a warp: what a warp reads from shared memory then serves
  // many products. 16 rows where their sums would leave too few registers for fragments.
  constexpr int64_t most_registers = 208;
  const int64_t registers = registers_of_rows(kernel, staging, function.body());
  const int rows = registers > most_registers ? 16 : 32;
  // Fewer than 16 no warp has: rows then go over several.
  if (registers > 2 * most_registers) kernel.by_rows = false;
  const int64_t wanted = kernel.by_rows ? most_rows / rows : most;
  while (kernel.warps < MmaKernel::most_warps && kernel.warps * 2 <= std::max<int64_t>(wanted, 4))
    kernel.warps *= 2;
  return kernel;
}

}  // namespace tile::cuda
