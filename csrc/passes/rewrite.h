// A forward sweep over a function in which each op is kept, dropped, or replaced by new ops before it.
#pragma once
#include <utility>
#include <vector>

#include "ir/build.h"
#include "ir/walk.h"

namespace tile {

enum class Keep {
  yes,
  no,    // its results were replaced or are unused
  last,  // like `no`, and nothing after it in this block can run
};

class Rewriter {
 public:
  explicit Rewriter(Function& function) : build(function, function.body()) {}

  Builder build;  // adds ops before the current one, with its location
  bool changed = false;

  // Replaces later uses of `old` by `by`.
  void replace(Value* old, Value* by) {
    changed = true;
    map_[old] = by;
  }
  Value* current(Value* value) const {
    for (auto at = map_.find(value); at != map_.end(); at = map_.find(value)) value = at->second;
    return value;
  }

  // Inserts an op that already has results.
  void append(std::unique_ptr<Op> op) {
    op->parent = &build.block();
    for (Value* result : op->results) result->owner = &build.block();
    build.block().ops.push_back(std::move(op));
  }

  // Calls visit(Op&) -> Keep for each op, after its operands are updated and its regions are visited.
  template <class Visit>
  void run(Block& block, Visit&& visit) {
    run(block, visit, [](Op&) {});
  }
  // Calls enter(Op&) before the regions of an op are visited.
  template <class Visit, class Enter>
  void run(Block& block, Visit&& visit, Enter&& enter) {
    std::vector<std::unique_ptr<Op>> ops = std::move(block.ops);
    block.ops.clear();
    block.ops.reserve(ops.size());
    for (auto& op : ops) {
      if (!map_.empty())
        for (Value*& operand : op->operands) operand = current(operand);
      if (!op->regions.empty()) {
        at(block, *op);
        enter(*op);
        for (auto& region : op->regions) run(*region, visit, enter);
      }
      at(block, *op);
      Keep keep = visit(*op);
      if (keep == Keep::yes) {
        block.ops.push_back(std::move(op));
        continue;
      }
      changed = true;
      dropped_.push_back(std::move(op));
      if (keep == Keep::last) break;
    }
    for (auto& op : ops)
      if (op) dropped_.push_back(std::move(op));
  }

 private:
  void at(Block& block, const Op& op) {
    build.to_end(block);
    build.location = op.location;
  }
  ValueMap map_;
  std::vector<std::unique_ptr<Op>> dropped_;  // kept until the sweep ends, since values still refer to them
};

}  // namespace tile
