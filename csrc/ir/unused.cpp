// Goes from the last op to the first, so that operands of removed ops are unused when their turn comes.
#include "ir/unused.h"

#include <algorithm>

#include "ir/walk.h"

namespace tile {

void remove_unused(Block& block) {
  UseCounts uses = count_uses(block);
  const auto remove = [&](Block& from, const auto& self) -> void {
    for (size_t i = from.ops.size(); i-- > 0;) {
      Op& op = *from.ops[i];
      for (const auto& region : op.regions) self(*region, self);
      const bool used = std::any_of(op.results.begin(), op.results.end(),
                                    [&](const Value* result) { return uses[result] > 0; });
      if (used || !(op.traits().pure() || op.is("load")) || !op.regions.empty()) continue;
      for (const Value* operand : op.operands) --uses[operand];
      from.ops.erase(from.ops.begin() + static_cast<ptrdiff_t>(i));
    }
  };
  remove(block, remove);
}

}  // namespace tile
