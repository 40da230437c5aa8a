// Counts the registers that sums leave in each loop.
#include "cuda/async/held_operands.h"

#include <algorithm>
#include <unordered_set>

#include "cuda/layout.h"
#include "cuda/staging.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

// Wider products read more of the right operand than of the left one.
constexpr int64_t most_columns = 64;
constexpr int64_t held_registers = AsyncPlan::held_columns / 4;  // for a block of 64 rows

// Returns true if the product's left operand is loaded in front of the loop, and its rows lie along k. Loops
// keep the float32 of f16 operands that they compute, which takes the registers; bf16 becomes it by a shift.
bool reads_unchanged(const AsyncPlan& plan, const Op& mma) {
  const MmaOperand left = mma_operand(mma.operands[0]);
  const Op* load = left.value->definition;
  if (!load || left.transposed || mma.type(0).dtype != DType::bf16) return false;
  const auto [ring, use] = plan.use_of(*load);
  if (!use || use->block == mma.parent) return false;
  const auto number = std::find(use->loads.begin(), use->loads.end(), load) - use->loads.begin();
  const RingTile& tile =
      plan.rings[static_cast<size_t>(ring)].tiles[use->first_tile + static_cast<size_t>(number)];
  return tile.layout.major == Major::columns;
}

// Returns true if the loop keeps other tiles than operands and sums of products: it loads some, or computes
// them before the sums of `last` with which it uses them.
bool keeps_tiles(const AsyncPlan& plan, const Op& last) {
  std::unordered_set<const Op*> before;
  bool begun = false, found = false;
  for (const auto& op : last.parent->ops) {
    const auto uses = [&](const Value* value) {
      return std::count(op->operands.begin(), op->operands.end(), value) != 0;
    };
    begun = begun || uses(last.results[0]);
    if (op->results.empty() || !is_tile(op->results[0])) continue;
    found = found || (op->is("load") && op->results[0]->type.rank() > 1 && !plan.use_of(*op).second);
    if (!begun && op->traits().elementwise && !op->is("astype") && op->results[0]->type == last.type(2))
      before.insert(op.get());
    if (!begun) continue;
    for (const Value* operand : op->operands) found = found || before.count(operand->definition);
  }
  return found;
}

}  // namespace

std::vector<const Op*> held_operands(const Function& function, const AsyncPlan& plan) {
  std::vector<const Block*> blocks;
  std::vector<std::vector<const Op*>> products;  // of each block
  walk(function.body(), [&](const Op& op) {
    if (!op.is("mma")) return;
    if (blocks.empty() || blocks.back() != op.parent) blocks.push_back(op.parent), products.emplace_back();
    products.back().push_back(&op);
  });
  std::vector<const Op*> held;
  for (const std::vector<const Op*>& of_block : products) {
    int64_t left = plan.group_registers();
    std::vector<const Op*> narrow;
    for (const Op* mma : of_block) {
      const int64_t columns = plan.group_columns(mma->type(2).shape);
      left -= plan.row_blocks * columns / 2;
      if (columns <= most_columns && mma->type(0).shape[1] > AsyncPlan::held_columns &&
          reads_unchanged(plan, *mma))
        narrow.push_back(mma);
    }
    if (narrow.size() < 2) continue;
    if (keeps_tiles(plan, *narrow.back())) return {};
    // The last product's sums are needed last, so others have begun while registers are read.
    for (size_t i = narrow.size(); i-- > 0 && left >= plan.row_blocks * held_registers;) {
      held.push_back(narrow[i]);
      left -= plan.row_blocks * held_registers;
    }
  }
  return held;
}

}  // namespace tile::cuda
