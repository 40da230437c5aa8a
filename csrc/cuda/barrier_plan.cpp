// Walks the kernel in execution order with the set of accesses that no barrier follows yet. Accesses of a
// loop's body also precede the body's next iteration.
#include "cuda/barrier_plan.h"

#include <algorithm>

#include "cuda/async/ops.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

bool touches(const Op& op) { return (op.traits().reads || op.traits().writes) && !is_panel_store(op); }

// Returns true for atomic additions whose old value is unused: they may run in any order, so two of them need
// no barrier. An atomic's result would reveal the order.
bool adds(const Op& op, const UseCounts& uses) {
  return op.is("add_tile") || (op.is("atomic_add") && !uses.count(op.results[0]));
}

// Returns true if the op accesses whole adjacent tiles that start at the array's first element.
bool tiled(const Op& op) {
  if (!op.is("load") && !op.is("store")) return false;
  const Value* tile = op.is("load") ? op.results[0] : op.operands[1];
  for (const Op* view = op.operands[0]->definition; view; view = view->operands[0]->definition)
    if (view->is("slice")) return false;
  return !tile->type.is_scalar() && op.integers("steps") == tile->type.shape;
}

}  // namespace

// Returns true if every element is accessed by the same thread in both ops.
bool BarrierPlan::same_thread(const Op& a, const Op& b) const {
  if (!tiled(a) || !tiled(b) || a.operands[0] != b.operands[0]) return false;
  auto layout = [&](const Op& op) -> const Layout& {
    return plan_.of(op.is("load") ? op.results[0] : op.operands[1]);
  };
  if (layout(a) != layout(b)) return false;
  // If several threads hold an element, one of them stores it but all of them load it.
  return (a.is("store") && b.is("store")) ||
         (layout(a).replicas(plan_.threads()) == 0 && layout(a).block_replicas(plan_.cluster()) == 0 &&
          !plan_.in_each_group(layout(a)));
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
