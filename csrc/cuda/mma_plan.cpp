// Assigns whole rows of a product to each warp, or arranges the warps in a roughly square grid.
#include "cuda/mma_plan.h"

#include <algorithm>
#include <unordered_set>

#include "ir/walk.h"

namespace tile::cuda {

MmaPlan mma_plan(const Shape& shape, int warps, bool by_rows) {
  const int m = static_cast<int>(shape[0] / MmaInstruction::rows),
            n = static_cast<int>(shape[1] / MmaInstruction::columns);
  MmaPlan best{1, 1, m, n};
  int64_t best_cost = INT64_MAX;
  for (int warps_m = 1; warps_m <= warps; warps_m *= 2)
    for (int warps_n = 1; warps_m * warps_n <= warps; warps_n *= 2) {
      // Blocks of columns are paired if possible.
      const bool pairs = n % (2 * warps_n) == 0 || warps_n == 1;
      if (m % warps_m != 0 || !pairs || (by_rows && warps_n != 1)) continue;
      const int blocks_m = m / warps_m, blocks_n = n / warps_n;
      // The cost counts blocks that a warp reads per step of k; idle warps dominate it.
      const int64_t cost = int64_t{warps / (warps_m * warps_n)} * 10000 + 2 * blocks_m + blocks_n;
      if (cost < best_cost) best = {warps_m, warps_n, blocks_m, blocks_n}, best_cost = cost;
    }
  return best;
}

Layout accumulator_layout(const Shape& shape, const MmaPlan& plan) {
  // A thread holds adjacent columns of one block, or of two.
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
  return by_rows && !(left.transposed && made && !made->is("load"));
}

namespace {

// Returns the sum of `of` over a block's products, or that of an inner block if it is larger.
template <class F>
int64_t most_together(const Block& block, F of) {
  int64_t own = 0, most = 0;
  for (const auto& op : block.ops) {
    if (op->is("mma")) own += of(*op);
    for (const auto& region : op->regions) most = std::max(most, most_together(*region, of));
  }
  return std::max(own, most);
}

// Returns how many elements warps read from and write to shared memory for a block's products. A loop counts
// as several iterations, and a product that leaves warps idle counts for these warps as well.
int64_t traffic(const Block& block, const StagingPlan& staging, const MmaKernel& kernel) {
  constexpr int64_t iterations = 8;
  std::unordered_set<const Value*> written;
  int64_t all = 0;
  for (const auto& op : block.ops) {
    const bool loops = op->is("for") || op->is("loop");
    for (const auto& region : op->regions)
      all += (loops ? iterations : 1) * traffic(*region, staging, kernel);
    if (!op->is("mma") || !staging.instruction(*op)) continue;
    const MmaPlan plan = mma_plan(op->type(2).shape, kernel.warps, kernel.multiplies_by_rows(*op));
    for (size_t i = 0; i < 2; ++i) {
      const MmaOperand operand = mma_operand(op->operands[i]);
      const Op* made = operand.value->definition;
      const bool computed = made && !made->is("load");
      if (i == 0 && computed && !operand.transposed && plan.warps_n == 1) continue;  // in registers
      const int64_t elements = element_count(operand.value->type.shape);
      all += elements * (i == 0 ? plan.warps_n : plan.warps_m) * kernel.warps / (plan.warps_m * plan.warps_n);
      if (computed && written.insert(operand.value).second) all += elements;
    }
  }
  return all;
}

}  // namespace

MmaKernel mma_kernel(const Function& function, const StagingPlan& staging) {
  MmaKernel kernel;
  int64_t most_rows = 0, most = 0;
  bool halves = false, reduces = false;
  // Sums count more for instructions that need more registers for fragments.
  const auto sums = [&](const Op& mma) {
    const MmaInstruction* instruction = staging.instruction(mma);
    return instruction ? element_count(mma.type(2).shape) * 128 / instruction->sums : 0;
  };
  walk(function.body(), [&](const Op& op) {
    // Chained products, and reductions next to products, prefer whole rows.
    if (op.is("reduce_sum") || op.is("reduce_max")) kernel.by_rows = reduces = true;
    if (!op.is("mma") || !staging.instruction(op)) return;
    kernel.any = true;
    most_rows = std::max(most_rows, op.type(2).shape[0]);
    most = std::max(most, sums(op));
    halves = halves || info(op.type(0).dtype).bytes == 2;
    const Value* left = mma_operand(op.operands[0]).value;
    if (left->definition && !left->definition->is("load")) kernel.by_rows = true;
  });
  if (!kernel.any) return kernel;
  // More warps than blocks of rows would repeat the same work.
  if (most_rows <= MmaInstruction::rows) kernel.by_rows = false;
  // Operands that are not 16 bits wide go through shared memory in any case.
  if (!halves) kernel.by_rows = false, most = most_together(function.body(), sums);
  // Accumulators of a thread if a warp has 32 rows of each product.
  const int64_t of_rows = most_together(function.body(), [&](const Op& op) {
    return staging.instruction(op) && kernel.multiplies_by_rows(op) ? op.type(2).shape[1] : 0;
  });
  // Use 128 sums a thread, or 32 rows a warp, so that each read from shared memory serves many products; 16
  // rows if the sums would leave too few registers for fragments.
  constexpr int64_t most_registers = 208;
  const int rows = of_rows > most_registers ? 16 : 32;
  const auto set_warps = [](MmaKernel& of, int64_t wanted) {
    while (of.warps < MmaKernel::most_warps && of.warps * 2 <= std::max<int64_t>(wanted, 4)) of.warps *= 2;
  };
  MmaKernel grid{true, false, 1};
  set_warps(kernel, kernel.by_rows ? most_rows / rows : most / 4096);
  set_warps(grid, most_together(function.body(), sums) / 4096);
  if (!kernel.by_rows || reduces) return kernel;
  // The grid needs more barriers, so require at least a tenth less traffic.
  const int64_t of_grid = traffic(function.body(), staging, grid),
                by_rows = traffic(function.body(), staging, kernel);
  return grid.warps >= kernel.warps && 10 * of_grid <= 9 * by_rows ? grid : kernel;
}

}  // namespace tile::cuda
