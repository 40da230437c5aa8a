// Finds values of several fused loops that are cheaper to recompute from memory than to keep: a kept tile is
// written and read, and occupies the caches. This applies only to float32: widening 16 bits again costs as
// much as it saves.
#include <algorithm>

#include "cpu/fusion/block_plan.h"
#include "cpu/fusion/fused_loop_build.h"

namespace tile::cpu {
namespace {

constexpr std::string_view cheap_ops[] = {"add", "sub", "mul", "fma", "neg"};
constexpr int most_steps = 2;            // in sequence
constexpr int64_t least_elements = 512;  // of a tile that is worth recomputing
constexpr int64_t times_smaller = 16;    // such a small tile stays in a cache

bool cheap(const Op& op) {
  return op.results[0]->type.dtype == DType::f32 &&
         std::find(std::begin(cheap_ops), std::end(cheap_ops), op.name()) != std::end(cheap_ops);
}

}  // namespace

// Returns true if a fused loop of that shape can compute the value in `steps` from values that exist in any
// case.
bool BlockPlan::repeatable(const Value* value, const Shape& shape, int steps) const {
  const Value* source = viewed(value);
  if (element_count(source->type.shape) * times_smaller <= element_count(shape)) return true;
  const Op* op = source->definition;
  if (op && op->is("load")) return lower_.stays_in_memory(*op) && !lower_.is_written(op->operands[0]);
  if (!op || source != value || !group_of_.count(op) || value->type.shape != shape) return false;
  if (steps == 0 || !cheap(*op)) return false;
  return std::all_of(op->operands.begin(), op->operands.end(),
                     [&](const Value* operand) { return repeatable(operand, shape, steps - 1); });
}

// Returns true if all readers are fused loops that recompute the value, so that it need not be kept.
bool BlockPlan::only_in_fused_loops(const Value* value, const Shape& shape) const {
  const auto& users = users_.at(value);
  return std::all_of(users.begin(), users.end(), [&](const Op* user) {
    const auto at = group_of_.find(user);
    if (at == group_of_.end() || at->second < 0 || !in_fused_loop(*user)) return false;
    const Group& group = groups_[static_cast<size_t>(at->second)];
    return group.fused_loop && group.shape == shape;
  });
}

void BlockPlan::repeat(const Value* value, int group, std::vector<const Op*>& front) {
  const Op* op = value->definition;
  const auto made = op ? group_of_.find(op) : group_of_.end();
  if (made == group_of_.end() || made->second >= group || !cheap(*op)) return;
  const Shape& shape = groups_[static_cast<size_t>(group)].shape;
  if (value->type.shape != shape || std::find(front.begin(), front.end(), op) != front.end()) return;
  for (const Value* operand : op->operands) repeat(operand, group, front);
  front.push_back(op);
  repeats_[op].push_back(group);
}

void BlockPlan::repeat_cheap() {
  for (int g = 1; g < static_cast<int>(groups_.size()); ++g) {
    Group& group = groups_[static_cast<size_t>(g)];
    if (!group.fused_loop || element_count(group.shape) < least_elements) continue;
    std::vector<const Op*> front;
    for (const Op* op : group.ops)
      for (const Value* operand : op->operands)
        if (repeatable(operand, group.shape, most_steps) && only_in_fused_loops(operand, group.shape))
          repeat(operand, g, front);
    group.ops.insert(group.ops.begin(), front.begin(), front.end());
  }
}

// Returns true if the value is read by any node other than the fused loops that compute it; the first of
// these loops then keeps it.
bool BlockPlan::needed_outside(const Value* value, int group) const {
  if (group_of_.at(value->definition) != group) return false;
  const auto has = [&](int index, const Op* op) {
    const auto& ops = groups_[static_cast<size_t>(index)].ops;
    return std::find(ops.begin(), ops.end(), op) != ops.end();
  };
  const auto computes = [&](int index) { return has(index, value->definition); };
  const auto outside = [&](const Op* user) {
    const auto at = group_of_.find(user);
    if (at == group_of_.end() || at->second < 0 || !has(at->second, user) || !computes(at->second))
      return true;
    const auto again = repeats_.find(user);
    return again != repeats_.end() && !std::all_of(again->second.begin(), again->second.end(), computes);
  };
  const auto users = users_.find(value);
  return users != users_.end() && std::any_of(users->second.begin(), users->second.end(), outside);
}

}  // namespace tile::cpu
