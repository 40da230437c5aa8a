// Prefetches the first loads of the next iteration or block during this one's computation: a block of several
// fused loops reads memory in the first and leaves it idle in the others.
#include "cpu/fusion/block_plan.h"
#include "cpu/fusion/fused_loop_build.h"

namespace tile::cpu {

// Collects the groups that read a tile or a view of it; -1 represents readers that are not in a group.
void BlockPlan::find_readers(const Value* value, std::set<int>& groups) const {
  const auto users = users_.find(value);
  if (users == users_.end()) return;
  for (const Op* user : users->second) {
    if (kind_of(*user) == Kind::cheap) {
      find_readers(user->results[0], groups);
      continue;
    }
    const auto at = group_of_.find(user);
    groups.insert(at == group_of_.end() ? -1 : at->second);
    if (const auto again = repeats_.find(user); again != repeats_.end())
      groups.insert(again->second.begin(), again->second.end());
  }
}

// Returns the only axis whose index changes in the next iteration.
std::optional<int> BlockPlan::moving_axis(const Op& load) const {
  std::optional<int> found;
  for (size_t i = 1; i < load.operands.size(); ++i) {
    const Value* index = load.operands[i];
    if (index->owner != &block_ || constant_of(index)) continue;
    if (found) return {};
    found = static_cast<int>(i) - 1;
  }
  return found;
}

// The last fused loop that reads a load prefetches the next one. If that loop also writes memory, the first
// one prefetches it as well. A load with a single reader is prefetched by that loop itself.
void BlockPlan::find_prefetch() {
  for (const auto& op : block_.ops) {
    if (!op->is("load") || !needed_.count(op.get()) || !lower_.stays_in_memory(*op)) continue;
    std::set<int> readers;
    find_readers(op->results[0], readers);
    if (readers.size() == 1) read_once_.insert(op.get());
    const auto computes = [&](int group) {
      return group >= 0 && groups_[static_cast<size_t>(group)].fused_loop &&
             groups_[static_cast<size_t>(group)].shape == op->results[0]->type.shape;
    };
    const auto axis = moving_axis(*op);
    if (!axis || readers.size() < 2 || !std::all_of(readers.begin(), readers.end(), computes)) continue;
    Group& last = groups_[static_cast<size_t>(*readers.rbegin())];
    const FusedLoopPrefetch next{lower_.tile(op->results[0]), *axis};
    last.prefetch.push_back(next);
    if (std::any_of(last.ops.begin(), last.ops.end(), [](const Op* other) { return other->is("store"); }))
      groups_[static_cast<size_t>(*readers.begin())].prefetch.push_back(next);
  }
}

}  // namespace tile::cpu
