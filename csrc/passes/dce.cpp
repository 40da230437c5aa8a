// Dead code elimination: removes ops without effect whose results are unused, and unused carried values and
// branch results.
#include <unordered_map>
#include <unordered_set>

#include "ir/walk.h"
#include "passes/passes.h"

namespace tile {
namespace {

// Returns the loop that a break or continue belongs to.
Op* loop_around(const Op& jump) {
  Op* at = jump.parent->parent;
  while (!at->is("loop")) at = at->parent->parent;
  return at;
}

class Liveness {
 public:
  explicit Liveness(Function& function) {
    walk(function.body(), [&](Op& op) {
      if (op.is("break") || op.is("continue")) jumps_[loop_around(op)].push_back(&op);
    });
    walk(function.body(), [&](Op& op) {
      if (op.traits().acts()) need(op);
    });
    while (!work_.empty()) {
      const Value* value = work_.back();
      work_.pop_back();
      follow(*value);
    }
  }

  bool live(const Op& op) const { return ops_.count(&op); }
  bool live(const Value* value) const { return values_.count(value); }

 private:
  void need(Value* value) {
    if (values_.insert(value).second) work_.push_back(value);
  }

  // The op is needed, and therefore its operands that are not carried, and the ops around it.
  void need(Op& op) {
    if (!ops_.insert(&op).second) return;
    if (op.parent->parent) need(*op.parent->parent);
    size_t fixed = op.is("for") ? 3 : op.is("loop") ? 0 : op.is("if") ? 1 : op.operands.size();
    if (op.traits().terminator) fixed = 0;
    for (size_t i = 0; i < fixed; ++i) need(op.operands[i]);
    if (op.is("loop"))
      for (Op* jump : jumps_[&op]) need(*jump);
    for (auto& region : op.regions)
      if (Op* end = region->terminator()) {
        need(*end);
        if (!op.is("for") && !op.is("loop") && !op.is("if"))  // a combine region needs all its values
          for (Value* operand : end->operands) need(operand);
      }
  }

  void follow(const Value& value) {
    if (Op* op = value.definition) {
      need(*op);
      for (size_t i = 0; i < op->results.size(); ++i)
        if (op->results[i] == &value) slot(*op, i);
    } else if (Op* op = value.owner->parent) {
      need(*op);
      size_t first = op->is("for") ? 1 : 0;
      const auto& arguments = value.owner->arguments;
      for (size_t i = first; i < arguments.size(); ++i)
        if (arguments[i] == &value && (op->is("for") || op->is("loop"))) slot(*op, i - first);
    }
  }

  // Marks everything that feeds position i of a structured op's carried values or results.
  void slot(Op& op, size_t i) {
    if (op.is("if")) {
      for (auto& region : op.regions)
        if (region->terminator()->is("yield")) need(region->terminator()->operands[i]);
    } else if (op.is("for")) {
      need(op.operands[3 + i]);
      need(op.region().terminator()->operands[i]);
      need(op.results[i]);
    } else if (op.is("loop")) {
      need(op.operands[i]);
      need(op.results[i]);
      need(op.region().arguments[i]);
      for (Op* jump : jumps_[&op]) need(jump->operands[i]);
    }
  }

  std::unordered_set<const Op*> ops_;
  std::unordered_set<const Value*> values_;
  std::vector<Value*> work_;
  std::unordered_map<const Op*, std::vector<Op*>> jumps_;
};

class Sweeper {
 public:
  explicit Sweeper(Function& function) : live_(function) { sweep(function.body()); }
  bool changed = false;

 private:
  template <class T>
  void keep(std::vector<T>& list, size_t first, const std::vector<bool>& mask) {
    size_t to = first;
    for (size_t i = first; i < list.size(); ++i)
      if (mask[i - first]) list[to++] = list[i];
    list.resize(to);
  }

  void sweep(Block& block) {
    size_t before = block.ops.size();
    std::erase_if(block.ops, [&](const std::unique_ptr<Op>& op) { return !live_.live(*op); });
    changed |= block.ops.size() != before;
    for (auto& op : block.ops) {
      narrow(*op);
      for (auto& region : op->regions) sweep(*region);
    }
  }

  // Removes the unused positions of a structured op.
  void narrow(Op& op) {
    bool counted = op.is("for"), loop = op.is("loop");
    if (!counted && !loop && !op.is("if")) return;
    std::vector<bool> mask;
    bool all = true;
    for (size_t i = 0; i < op.results.size(); ++i) {
      bool live = live_.live(op.results[i]);
      if (counted) live |= live_.live(op.region().arguments[i + 1]);
      mask.push_back(live);
      all &= live;
    }
    if (all) return;
    changed = true;
    keep(op.results, 0, mask);
    if (counted) {
      keep(op.operands, 3, mask);
      keep(op.region().arguments, 1, mask);
    } else if (loop) {
      keep(op.operands, 0, mask);
      keep(op.region().arguments, 0, mask);
      walk(op.region(), [&](Op& inner) {
        if ((inner.is("break") || inner.is("continue")) && loop_around(inner) == &op)
          keep(inner.operands, 0, mask);
      });
    }
    for (auto& region : op.regions)
      if (Op* end = region->terminator(); end->is("yield")) keep(end->operands, 0, mask);
  }

  Liveness live_;
};

}  // namespace

bool dce(Function& function) { return Sweeper(function).changed; }

}  // namespace tile
