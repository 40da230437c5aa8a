// Repeats the ops of an index tile for staged loads of rows. Tiles of one type are copied by the same
// threads, so loads of them in one block share what is repeated.
#include "cuda/row_indices.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "ir/build.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

class Separation {
 public:
  Separation(Function& function, const KernelArrays& arrays) : function_(function), arrays_(arrays) {}

  // Returns a copy of the value that only these loads use, or the value where an op may not be repeated.
  Value* copy_of(Value* value) {
    Op* made = value->definition;
    if (!made || value->type.is_array() || value->type.is_scalar() || !repeats(*made)) return value;
    Value*& copy = copies_[value];
    if (copy) return copy;
    ValueMap map;
    for (Value* operand : made->operands) map[operand] = copy_of(operand);
    Block& block = *made->parent;
    const auto at = std::find_if(block.ops.begin(), block.ops.end(),
                                 [&](const auto& each) { return each.get() == made; });
    Builder build(function_, block);
    build.at(block, static_cast<size_t>(at - block.ops.begin()) + 1);
    return copies_[value] = build.insert(clone(*made, function_, map)).result();
  }

 private:
  bool repeats(const Op& op) const {
    const bool loads = op.is("load") || op.is("gather");
    return op.regions.empty() && op.results.size() == 1 &&
           (op.traits().pure() || (loads && arrays_.facts(op.operands[0]).constant));
  }
  Function& function_;
  const KernelArrays& arrays_;
  std::unordered_map<const Value*, Value*> copies_;
};

void find(const Block& block, const StagingPlan& staging, std::vector<Op*>& loads) {
  for (const auto& op : block.ops) {
    for (const auto& region : op->regions) find(*region, staging, loads);
    const Staged* staged = staging.of(*op);
    if (staged && staged->by_rows) loads.push_back(op.get());
  }
}

}  // namespace

void separate_row_indices(Function& function, const KernelArrays& arrays, const StagingPlan& staging) {
  std::vector<Op*> loads;
  find(function.body(), staging, loads);
  std::deque<std::pair<const Op*, Separation>> kinds;
  for (Op* load : loads) {
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& each) {
      return each.first->parent == load->parent && each.first->results[0]->type == load->results[0]->type;
    });
    Separation& own =
        kind == kinds.end() ? kinds.emplace_back(load, Separation(function, arrays)).second : kind->second;
    load->operands[1] = own.copy_of(load->operands[1]);
  }
}

}  // namespace tile::cuda
