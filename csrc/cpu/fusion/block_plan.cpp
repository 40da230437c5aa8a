// Groups ops and lowers groups to nodes.
#include "cpu/fusion/block_plan.h"

#include <algorithm>

#include "cpu/fusion/fused_loop_build.h"
#include "cpu/interpreter/control.h"
#include "cpu/interpreter/scalar_node.h"
#include "ir/walk.h"

namespace tile::cpu {

BlockPlan::BlockPlan(LoweringContext& lower, const Block& block) : lower_(lower), block_(block) {
  plan();
  for (const InPlaceLoads::Several& several : lower.in_place_.several) {
    if (runs_before(several)) continue;
    for (const Op* load : several.loads) lower.in_place_.loads.erase(load);  // copy these loads after all
    plan();
  }
  repeat_cheap();
  find_prefetch();
  find_last_uses();
}

BlockPlan::Kind BlockPlan::kind_of(const Op& op) const {
  if (op.traits().terminator || op.is("constant")) return Kind::none;
  if (const LoweringRule* lowering = find_lowering(lower_, op))
    return lowering->cheap ? Kind::cheap : Kind::single;
  if (!op.regions.empty()) return Kind::single;
  if (in_fused_loop(op)) return Kind::fused_loop;
  if (op.traits().elementwise) return Kind::cheap;  // on scalars
  fail(op, ErrorKind::unsupported, "has no CPU implementation");
}

// Returns the values that an op's node reads, including those used in its regions.
std::vector<const Value*> BlockPlan::reads(const Op& op) const {
  const LoweringRule* lowering = op.traits().terminator ? nullptr : find_lowering(lower_, op);
  if (lowering && lowering->needs) return lowering->needs(lower_, op);
  std::vector<const Value*> values(op.operands.begin(), op.operands.end());
  for (const auto& region : op.regions)
    walk(*region,
         [&](const Op& inner) { values.insert(values.end(), inner.operands.begin(), inner.operands.end()); });
  return values;
}

// Some lowering rules look through their operands; an op that nothing else needs is not computed.
void BlockPlan::find_needed() {
  std::unordered_set<const Value*> needed;
  for (size_t i = block_.ops.size(); i-- > 0;) {
    const Op& op = *block_.ops[i];
    bool wanted = op.traits().acts() || op.traits().terminator || !op.regions.empty();
    for (const Value* result : op.results) wanted |= needed.count(result) != 0;
    if (!wanted) continue;
    needed_.insert(&op);
    for (const Value* operand : reads(op)) {
      needed.insert(operand);
      users_[operand].push_back(&op);
    }
  }
}

bool BlockPlan::runs_before(const InPlaceLoads::Several& several) const {
  int last = -1, first = static_cast<int>(groups_.size());
  for (const auto& [op, group] : group_of_) {
    if (several.readers.count(op)) last = std::max(last, group);
    if (several.stores.count(op)) first = std::min(first, group);
  }
  return last <= first;
}

void BlockPlan::plan() {
  needed_.clear(), users_.clear(), early_.clear(), groups_.clear(), positions_.clear(), group_of_.clear();
  last_reader_.clear(), last_writer_.clear();
  barrier_ = last_access_ = -1;
  find_needed();
  // Ops that depend on no group come first, so that they do not split fused loops.
  std::unordered_set<const Value*> late;
  std::vector<const Op*> rest;
  for (const auto& op : block_.ops) {
    Kind kind = kind_of(*op);
    if (kind == Kind::none || !needed_.count(op.get())) continue;
    bool early = kind == Kind::cheap;
    if (early)
      for (const Value* operand : reads(*op)) early &= !late.count(operand);
    if (early) {
      early_.push_back(op.get());
      continue;
    }
    for (const Value* result : op->results) late.insert(result);
    rest.push_back(op.get());
  }
  for (const Op* op : rest) assign(*op);
}

int BlockPlan::memory_bound(const Op& op) const {
  Effects effects = effects_of(op);
  if (!effects.any()) return 0;
  int bound = barrier_ + 1;
  auto after = [&](const std::unordered_map<const Value*, int>& last, const Value* array) {
    auto at = last.find(array);
    if (at != last.end()) bound = std::max(bound, at->second + 1);
  };
  for (const Value* array : effects.reads) after(last_writer_, array);
  for (const Value* array : effects.writes) {
    after(last_reader_, array);
    auto at = last_writer_.find(array);
    if (at != last_writer_.end()) bound = std::max(bound, at->second + (may_join(op, at->second) ? 0 : 1));
  }
  if (effects.barrier || effects.other) bound = std::max(bound, last_access_ + 1);
  return bound;
}

// Two stores of one fused loop run chunk by chunk, so they must not overlap. Tiles of one grid of tiles do
// not overlap if their indices differ by constants along some axis; neither do disjoint views.
bool BlockPlan::may_join(const Op& store, int group) const {
  if (!groups_[static_cast<size_t>(group)].fused_loop || !in_fused_loop(store)) return false;
  for (const Op* other : groups_[static_cast<size_t>(group)].ops) {
    if (!other->traits().writes || root_array(other->operands[0]) != root_array(store.operands[0])) continue;
    if (apart(other->operands[0], store.operands[0])) continue;
    if (other->operands[0] != store.operands[0] || other->integers("steps") != store.integers("steps") ||
        store.integers("steps") != store.type(1).shape)
      return false;
    bool disjoint = false;
    for (size_t i = 2; i < store.operands.size(); ++i) {
      auto a = constant_of(store.operands[i]), b = constant_of(other->operands[i]);
      disjoint |= a && b && a->integer != b->integer;
    }
    if (!disjoint) return false;
  }
  return true;
}

void BlockPlan::note_memory(const Op& op, int group) {
  Effects effects = effects_of(op);
  const bool jumps = has_jump(op);
  if (!effects.any() && !jumps) return;
  for (const Value* array : effects.reads) last_reader_[array] = std::max(last_reader_[array], group);
  for (const Value* array : effects.writes) last_writer_[array] = group;
  if (effects.barrier || effects.other || jumps) barrier_ = group;
  last_access_ = std::max(last_access_, group);
}

void BlockPlan::assign(const Op& op) {
  Kind kind = kind_of(op);
  int bound = 0;
  auto need = [&](const Value* value) {
    auto at = positions_.find(value);
    if (at != positions_.end()) bound = std::max(bound, at->second.group + (at->second.finished ? 1 : 0));
  };
  const std::vector<const Value*> operands = reads(op);
  for (const Value* operand : operands) need(operand);
  if (kind == Kind::cheap) {  // directly after the group that computes its operands
    int group = -1;
    for (const Value* operand : operands)
      if (auto at = positions_.find(operand); at != positions_.end())
        group = std::max(group, at->second.group);
    group_of_[&op] = group;
    groups_[static_cast<size_t>(group)].after.push_back(&op);
    for (const Value* result : op.results) positions_[result] = {group, true};
    return;
  }
  bound = std::max(bound, memory_bound(op));
  // An in-place operand in memory that the kernel writes is read by this op, not at its load's position.
  const bool in_place = std::any_of(operands.begin(), operands.end(), [&](const Value* operand) {
    const Op* load = lower_.memory_load(operand);
    return load && lower_.is_written(load->operands[0]);
  });
  if (in_place) bound = std::max(bound, barrier_ + 1);
  int chosen = -1;
  if (kind == Kind::fused_loop) {
    const Shape& shape = fused_loop_shape(op);
    for (int g = bound; g < static_cast<int>(groups_.size()) && chosen < 0; ++g)
      if (groups_[static_cast<size_t>(g)].fused_loop && groups_[static_cast<size_t>(g)].shape == shape)
        chosen = g;
    if (chosen < 0) {
      chosen = static_cast<int>(groups_.size());
      groups_.push_back({.fused_loop = true, .shape = shape, .ops = {}, .after = {}});
    }
  } else {
    chosen = static_cast<int>(groups_.size());
    groups_.push_back({.fused_loop = false, .shape = {}, .ops = {}, .after = {}});
  }
  groups_[static_cast<size_t>(chosen)].ops.push_back(&op);
  group_of_[&op] = chosen;
  bool inside = kind == Kind::fused_loop && op.traits().elementwise;
  for (const Value* result : op.results) positions_[result] = {chosen, !inside};
  note_memory(op, chosen);
  if (in_place) last_access_ = std::max(last_access_, chosen);
}

void BlockPlan::find_last_uses() {
  const int end = static_cast<int>(groups_.size());
  for (const auto& [value, users] : users_) {
    int last = -1;
    for (const Op* user : users) {
      auto at = group_of_.find(user);
      last = std::max(last, user->traits().terminator ? end : at != group_of_.end() ? at->second : -1);
      if (auto again = repeats_.find(user); again != repeats_.end())
        last = std::max(last, again->second.back());
    }
    const Value* owner = viewed(value);
    auto [at, fresh] = last_use_.emplace(owner, last);
    if (!fresh) at->second = std::max(at->second, last);
  }
  // Carried values exchange slots with the loop's, and single nodes may overwrite an operand. These values
  // need dedicated slots of exactly their size.
  for (const auto& [value, users] : users_) {
    const Op* user = users[0];
    bool only_reader = users.size() == 1 && !user->traits().terminator && kind_of(*user) == Kind::single;
    if (only_reader || last_use_[viewed(value)] == end) lower_.dedicated_.insert(viewed(value));
  }
}

void BlockPlan::emit_cheap(const Op& op, OpNodes& nodes) {
  std::unique_ptr<OpNode> node;
  if (const LoweringRule* lowering = find_lowering(lower_, op))
    node = lowering->lower(lower_, op);
  else
    node = scalar_node(lower_, op);
  if (node) nodes.push_back(std::move(node));
}

void BlockPlan::emit_group(size_t index, OpNodes& nodes) {
  const Group& group = groups_[index];
  if (group.fused_loop) {
    const FusedLoopSurroundings around = {
        [&](const Value* value) { return needed_outside(value, static_cast<int>(index)); },
        [&](const Value* value) { return repeats_.count(value->definition) != 0; },
        [&](const Value* value) { return read_once_.count(lower_.memory_load(value)) != 0; }, group.prefetch};
    nodes.push_back(build_fused_loop(lower_, group.shape, group.ops, around, nodes));
  } else {
    const Op& op = *group.ops[0];
    lower_.last_used_here_.clear();
    for (const Value* operand : op.operands) {
      const Value* owner = viewed(operand);
      int times = static_cast<int>(std::count_if(op.operands.begin(), op.operands.end(),
                                                 [&](const Value* other) { return viewed(other) == owner; }));
      auto at = last_use_.find(owner);
      // Only values that this block computes, or carries around its loop, may be overwritten.
      if (times == 1 && at != last_use_.end() && at->second == static_cast<int>(index) &&
          owner->owner == &block_ && unseen_after(owner, static_cast<int>(index)))
        lower_.last_used_here_.insert(operand);
    }
    std::unique_ptr<OpNode> node;
    if (const LoweringRule* lowering = find_lowering(lower_, op))
      node = lowering->lower(lower_, op);
    else
      node = control_node(lower_, op);
    lower_.last_used_here_.clear();
    if (node) nodes.push_back(std::move(node));
  }
  for (const Op* op : group.after) emit_cheap(*op, nodes);
}

bool BlockPlan::unseen_after(const Value* owner, int group) const {
  for (const Op* op : groups_[static_cast<size_t>(group)].after)
    for (const Value* operand : op->operands)
      if (viewed(operand) == owner) return false;
  return true;
}

// Frees slots after their last reader, for the following groups.
void BlockPlan::release_after(size_t index) {
  for (const auto& [owner, last] : last_use_) {
    if (last != static_cast<int>(index) || owner->owner != &block_ || !owner->definition) continue;
    auto at = lower_.slots_.find(owner);
    if (at == lower_.slots_.end() || lower_.kept_slots_.count(at->second)) continue;
    lower_.free_slots_.emplace(lower_.slot_bytes_[static_cast<size_t>(at->second)], at->second);
  }
}

OpNodes BlockPlan::nodes() {
  OpNodes nodes;
  for (const Op* op : early_) emit_cheap(*op, nodes);
  for (size_t i = 0; i < groups_.size(); ++i) {
    emit_group(i, nodes);
    release_after(i);
  }
  if (const Op* end = block_.terminator()) nodes.push_back(terminator_node(lower_, *end));
  return nodes;
}

OpNodes LoweringContext::block(const Block& block) { return BlockPlan(*this, block).nodes(); }

}  // namespace tile::cpu
