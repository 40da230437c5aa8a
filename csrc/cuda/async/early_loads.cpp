// Moves the loads of a block of ops, with the scalars that they need.
#include "cuda/async/early_loads.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "cuda/layout.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

class EarlyLoads {
 public:
  EarlyLoads(Block& block, const std::unordered_set<const Value*>& written)
      : block_(block), written_(written) {}

  void run() {
    std::vector<const Op*> loads;
    for (const auto& op : block_.ops)
      if (op->is("load") && is_vector(*op)) loads.push_back(op.get());
    for (const Op* load : loads)
      if (const Op* target = target_of(*load)) move(*load, *target);
  }

 private:
  bool is_vector(const Op& load) const {
    const Type& type = load.results[0]->type;
    if (type.rank() != 2 || written_.count(root_array(load.operands[0]))) return false;
    return load.has("panel") ? type.shape[0] == 1 : type.shape[1] == 1;
  }
  // Returns the op in front of which the load moves: the first one of the panel before its own, or the loop
  // whose sum the panels have. Null without panels.
  const Op* target_of(const Op& load) const {
    const int64_t panel = load.has("panel") ? load.integer("panel") : 0;
    for (const auto& op : block_.ops) {
      if (!op->is("extract") || !op->has("panel")) continue;
      if (panel == 0) return op->operands[0]->definition;
      if (op->integer("panel") == panel - 1) return op.get();
    }
    return nullptr;
  }

  size_t position_of(const Op& op) const {
    const auto found = std::find_if(block_.ops.begin(), block_.ops.end(),
                                    [&](const auto& each) { return each.get() == &op; });
    return static_cast<size_t>(found - block_.ops.begin());
  }
  // Adds the op and the ops of the block behind `first` that it needs, in order. Returns false if one of them
  // acts or loads.
  bool gather(const Op& op, size_t first, std::vector<const Op*>& needed) const {
    if (std::find(needed.begin(), needed.end(), &op) != needed.end()) return true;
    for (const Value* operand : op.operands) {
      const Op* made = operand->definition;
      if (!made || made->parent != &block_ || position_of(*made) < first) continue;
      if (!made->traits().pure() || !made->regions.empty() || is_tile(operand) ||
          !gather(*made, first, needed))
        return false;
    }
    needed.push_back(&op);
    return true;
  }
  void move(const Op& load, const Op& target) {
    const size_t first = position_of(target), position = position_of(load);
    if (target.parent != &block_ || first >= position) return;
    for (size_t i = first; i < position; ++i)
      if (effects_of(*block_.ops[i]).barrier) return;
    std::vector<const Op*> needed;
    if (!gather(load, first, needed)) return;
    auto to = static_cast<ptrdiff_t>(first);
    for (const Op* op : needed) {
      const auto from = static_cast<ptrdiff_t>(position_of(*op));
      std::rotate(block_.ops.begin() + to, block_.ops.begin() + from, block_.ops.begin() + from + 1);
      ++to;
    }
  }

  Block& block_;
  const std::unordered_set<const Value*>& written_;
};

}  // namespace

void begin_loads_early(Function& function) {
  std::unordered_set<const Value*> written;
  std::vector<Block*> blocks{&function.body()};
  for (size_t i = 0; i < blocks.size(); ++i)
    for (const auto& op : blocks[i]->ops) {
      if (op->traits().writes) written.insert(root_array(op->operands[0]));
      for (const auto& region : op->regions) blocks.push_back(region.get());
    }
  for (Block* block : blocks) EarlyLoads(*block, written).run();
}

}  // namespace tile::cuda
