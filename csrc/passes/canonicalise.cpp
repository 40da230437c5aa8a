// Gives equivalent kernels one order of ops: g++ and clang evaluate operands in different orders, so traces
// differ. Ops with effects keep their order. All other ops are placed where an effect first needs them,
// operands first. A read that is not needed yet is placed before a write that it must not see. Unused ops are
// removed.
#include <unordered_map>

#include "ir/walk.h"
#include "passes/passes.h"

namespace tile {
namespace {

class Schedule {
 public:
  explicit Schedule(Block& block) : block_(block) {
    size_t n = block.ops.size();
    index_.reserve(n);
    for (size_t i = 0; i < n; ++i) index_[block.ops[i].get()] = i;
    effects_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      const Op& op = *block.ops[i];
      const Traits& traits = op.traits();
      if (op.regions.empty() && traits.pure()) continue;
      effects_[i] = effects_of(op);
      const Effects& effects = effects_[i];
      bool changes = effects.barrier || effects.other || !effects.writes.empty();
      if (changes || traits.terminator || has_jump(op))
        roots_.push_back(i);
      else if (!effects.reads.empty())
        readers_.push_back(i);
    }
  }

  bool run() {
    size_t n = block_.ops.size();
    // A first order that only follows needs: it ranks the readers and settles the operand order of
    // commutative ops.
    done_.assign(n, false);
    settle_operands_ = true;
    for (size_t root : roots_) schedule(root);
    std::vector<size_t> by_need = std::move(order_);
    bool moved_reader = order_by_need_breaks_memory(by_need);
    if (moved_reader) {
      settle_operands_ = false;
      done_.assign(n, false);
      order_.clear();
      for (size_t root : roots_) {
        for (size_t reader : readers_by_need_)
          if (reader < root && !done_[reader] && effects_[reader].conflicts(effects_[root])) schedule(reader);
        schedule(root);
      }
      by_need = std::move(order_);
    }
    bool changed = swapped_ || by_need.size() != n;
    std::vector<std::unique_ptr<Op>> ops;
    for (size_t i = 0; i < by_need.size(); ++i) {
      changed |= by_need[i] != i;
      ops.push_back(std::move(block_.ops[by_need[i]]));
    }
    block_.ops = std::move(ops);
    return changed;
  }

 private:
  // Keeps the readers among `order`, in that order.
  bool order_by_need_breaks_memory(const std::vector<size_t>& order) {
    if (readers_.empty()) return false;
    std::vector<bool> reader(block_.ops.size(), false);
    for (size_t i : readers_) reader[i] = true;
    for (size_t i : order)
      if (reader[i]) readers_by_need_.push_back(i);
    return !readers_by_need_.empty();
  }

  std::optional<size_t> index_of(const Value* value) const {
    if (value->owner != &block_ || !value->definition) return std::nullopt;
    return index_.at(value->definition);
  }
  bool scheduled(const Value* value) const {
    auto index = index_of(value);
    return !index || done_[*index];
  }

  // Puts constants second and existing values before others. Sources that differ only in this order become
  // equal.
  void settle(Op& op) {
    if (!op.traits().commutative || op.operands.size() < 2) return;
    Value *&x = op.operands[0], *&y = op.operands[1];
    bool constant_x = constant_of(x).has_value(), constant_y = constant_of(y).has_value();
    bool swap = constant_x != constant_y ? constant_x : !scheduled(x) && scheduled(y);
    if (!swap) return;
    std::swap(x, y);
    swapped_ = true;
  }

  // Returns the ops of this block whose results `op` uses, including uses in nested regions, in order of use.
  std::vector<size_t> needs(const Op& op) const {
    std::vector<size_t> found;
    auto add = [&](const Op& each) {
      for (const Value* operand : each.operands)
        if (auto index = index_of(operand); index && !done_[*index]) found.push_back(*index);
    };
    add(op);
    for (const auto& region : op.regions) walk(*region, add);
    return found;
  }

  // Depth first with an explicit stack, because unrolled kernels are deep.
  void schedule(size_t root) {
    struct Frame {
      size_t op;
      std::vector<size_t> needs;
      size_t next = 0;
    };
    std::vector<Frame> stack;
    auto open = [&](size_t index) {
      if (done_[index]) return;
      Op& op = *block_.ops[index];
      if (settle_operands_) settle(op);
      stack.push_back({index, needs(op)});
    };
    open(root);
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next < frame.needs.size()) {
        open(frame.needs[frame.next++]);
        continue;
      }
      if (!done_[frame.op]) order_.push_back(frame.op);
      done_[frame.op] = true;
      stack.pop_back();
    }
  }

  Block& block_;
  std::unordered_map<const Op*, size_t> index_;
  std::vector<Effects> effects_;
  std::vector<size_t> roots_, readers_, readers_by_need_, order_;
  std::vector<bool> done_;
  bool settle_operands_ = true, swapped_ = false;
};

bool canonicalise(Block& block) {
  bool changed = false;
  for (auto& op : block.ops)
    for (auto& region : op->regions) changed |= canonicalise(*region);
  return Schedule(block).run() || changed;
}

}  // namespace

bool canonicalise(Function& function) { return canonicalise(function.body()); }

}  // namespace tile
