// Common subexpression elimination: merges a pure op with an equal one that dominates it, and a load with an
// equal one if no write is in between.
#include <algorithm>
#include <unordered_map>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tile {
namespace {

bool mergeable(const Op& op) {
  const Traits& traits = op.traits();
  return op.regions.empty() && !op.results.empty() && !traits.writes && !traits.barrier && !traits.effect &&
         !traits.terminator && !traits.impure;
}

// Returns the first two operands, in a canonical order if the op is commutative.
std::pair<const Value*, const Value*> first_two(const Op& op) {
  const Value* x = op.operands.size() > 0 ? op.operands[0] : nullptr;
  const Value* y = op.operands.size() > 1 ? op.operands[1] : nullptr;
  if (op.traits().commutative && std::less<>()(y, x)) std::swap(x, y);
  return {x, y};
}

struct Key {
  const Op* op;
  size_t memory;  // version of the array that it reads; 0: reads none
  bool operator==(const Key& other) const {
    const Op &a = *op, &b = *other.op;
    if (a.primitive != b.primitive || memory != other.memory || a.operands.size() != b.operands.size())
      return false;
    if (first_two(a) != first_two(b)) return false;
    for (size_t i = 2; i < a.operands.size(); ++i)
      if (a.operands[i] != b.operands[i]) return false;
    return a.attributes == b.attributes;
  }
};
struct KeyHash {
  size_t operator()(const Key& key) const {
    auto [x, y] = first_two(*key.op);
    size_t hash = std::hash<const void*>()(key.op->primitive) ^ key.memory * 0x9e3779b97f4a7c15u;
    auto mix = [&](size_t value) { hash = (hash ^ value) * 0x100000001b3u; };
    mix(std::hash<const void*>()(x));
    mix(std::hash<const void*>()(y));
    for (size_t i = 2; i < key.op->operands.size(); ++i) mix(std::hash<const void*>()(key.op->operands[i]));
    for (const auto& [name, value] : key.op->attributes)
      if (auto* integer = std::get_if<int64_t>(&value)) mix(static_cast<size_t>(*integer));
    return hash;
  }
};

class Merger {
 public:
  explicit Merger(Function& function) : function_(function) {}

  bool run() {
    block(function_.body());
    if (!replacements_.empty()) replace_uses(function_.body(), replacements_);
    return !replacements_.empty();
  }

 private:
  // Versions only increase, so a load is only compared with loads of the same memory state.
  using Versions = std::unordered_map<const Value*, size_t>;

  size_t memory_of(const Op& op) {
    if (!op.traits().reads) return 0;
    size_t version = everything_;
    for (const Value* operand : op.operands)
      if (operand->type.is_array())
        if (auto at = versions_.find(root_array(operand)); at != versions_.end())
          version = std::max(version, at->second);
    return version;
  }
  void write(const Effects& effects) {
    for (const Value* array : effects.writes) versions_[array] = ++newest_;
    if (effects.barrier) everything_ = ++newest_;
  }

  void block(Block& block) {
    size_t outer = scope_.size();
    std::erase_if(block.ops, [&](std::unique_ptr<Op>& op) { return merge(op); });
    for (; scope_.size() > outer; scope_.pop_back()) seen_.erase(scope_.back());
  }

  bool merge(std::unique_ptr<Op>& op) {
    for (Value*& operand : op->operands)
      for (auto at = replacements_.find(operand); at != replacements_.end(); at = replacements_.find(operand))
        operand = at->second;
    if (!op->regions.empty()) {
      Effects effects = effects_of(*op);
      write(effects);  // a later iteration sees what an earlier one wrote
      for (auto& region : op->regions) {
        block(*region);
        write(effects);
      }
      return false;
    }
    if (!mergeable(*op)) {
      if (op->traits().writes || op->traits().barrier) write(effects_of(*op));
      return false;
    }
    Key key{op.get(), memory_of(*op)};
    auto [at, fresh] = seen_.try_emplace(key, op.get());
    if (fresh) {
      scope_.push_back(key);
      return false;
    }
    for (size_t i = 0; i < op->results.size(); ++i) replacements_[op->results[i]] = at->second->results[i];
    dropped_.push_back(std::move(op));
    return true;
  }

  Function& function_;
  std::unordered_map<Key, Op*, KeyHash> seen_;
  std::vector<Key> scope_;
  ValueMap replacements_;
  Versions versions_;
  size_t everything_ = 1, newest_ = 1;
  std::vector<std::unique_ptr<Op>> dropped_;
};

}  // namespace

bool cse(Function& function) { return Merger(function).run(); }

}  // namespace tile
