// A walk in the order of execution, with the accesses that are still open; a loop's come before themselves.
#include "cuda/barrier_plan.h"

#include <algorithm>

#include "ir/walk.h"

namespace tile::cuda {
namespace {

bool touches(const Op& op) { return op.traits().reads || op.traits().writes; }

// In any order, and each element at once; of what gives what stood there the order can be seen.
bool adds(const Op& op, const UseCounts& uses) {
  return op.is("add_tile") || (op.is("atomic_add") && !uses.count(op.results[0]));
}

// Whole tiles, side by side from the array's first element on.
bool tiled(const Op& op) {
  if (!op.is("load") && !op.is("store")) return false;
  const Value* tile = op.is("load") ? op.results[0] : op.operands[1];
  for (const Op* view = op.operands[0]->definition; view; view = view->operands[0]->definition)
    if (view->is("slice")) return false;
  return !tile->type.is_scalar() && op.integers("steps") == tile->type.shape;
}

}  // namespace

// Returns true if an element is touched by one thread in both.
bool BarrierPlan::same_thread(const Op& a, const Op& b) const {
  if (!tiled(a) || !tiled(b) || a.operands[0] != b.operands[0]) return false;
  auto layout = [&](const Op& op) -> const Layout& {
    return plan_.of(op.is("load") ? op.results[0] : op.operands[1]);
  };
  if (layout(a) != layout(b)) return false;
  // One of the threads that hold the same elements stores, and all load.
  return (a.is("store") && b.is("store")) ||
         (layout(a).replicas(plan_.threads()) == 0 && layout(a).block_replicas(plan_.cluster()) == 0);
}

void BarrierPlan::access(const Op& op) {
  const Value* array = root_array(op.operands[0]);
  const bool races = std::any_of(open_.begin(), open_.end(), [&](const Op* before) {
    if (root_array(before->operands[0]) != array) return false;
    if (!op.traits().writes && !before->traits().writes) return false;
    if (adds(op, uses_) && adds(*before, uses_)) return false;
    return !apart(op.operands[0], before->operands[0]) && !same_thread(op, *before);
  });
  if (races) {
    barriers_.insert(&op);
    open_.clear();
  }
  open_.insert(&op);
}

void BarrierPlan::visit(const Block& block) {
  for (const auto& op : block.ops) {
    if (touches(*op)) access(*op);
    if (op->regions.empty()) continue;
    const bool loops = op->is("for") || op->is("loop");
    std::unordered_set<const Op*> before = open_, after;
    if (loops)
      for (const auto& region : op->regions)
        walk(*region, [&](const Op& inner) {
          if (touches(inner)) before.insert(&inner);
        });
    for (const auto& region : op->regions) {
      open_ = before;
      visit(*region);
      after.insert(open_.begin(), open_.end());
    }
    if (loops) after.merge(before);
    open_ = std::move(after);
  }
}

}  // namespace tile::cuda
