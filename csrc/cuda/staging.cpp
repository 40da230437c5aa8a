// Uses of loads, and the ops their addresses need.
#include "cuda/staging.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_set>

#include "ir/walk.h"

namespace tile::cuda {
namespace {

bool turns(const Op& op) { return op.is("permute") && op.integers("axes") == std::vector<int64_t>{1, 0}; }

// Read by tensor cores, and by nothing else.
bool only_multiplied(const Value* value,
                     const std::unordered_map<const Value*, std::vector<const Op*>>& users) {
  const auto found = users.find(value);
  if (found == users.end()) return false;
  return std::all_of(found->second.begin(), found->second.end(), [&](const Op* user) {
    if (turns(*user)) return only_multiplied(user->results[0], users);
    return user->is("mma") && user->operands[2] != value && on_tensor_cores(*user);
  });
}

}  // namespace

bool address_ops(const Op& load, const Block& body, std::vector<const Op*>& ops) {
  std::unordered_set<const Op*> needed;
  const std::function<bool(const Op&)> add = [&](const Op& op) {
    for (const Value* operand : op.operands) {
      const Op* definition = operand->definition;
      if (!definition || definition->parent != &body || needed.count(definition)) continue;
      if (!definition->traits().pure() || !definition->regions.empty() || !add(*definition)) return false;
      needed.insert(definition);
    }
    // A value carried from turn to turn is not known ahead.
    for (const Value* operand : op.operands)
      if (!operand->definition && operand->owner == &body && operand != body.arguments[0]) return false;
    return true;
  };
  if (!add(load)) return false;
  for (const auto& op : body.ops)
    if (needed.count(op.get())) ops.push_back(op.get());
  return true;
}

MmaOperand mma_operand(const Value* value) {
  MmaOperand operand{value, false};
  while (operand.value->definition && turns(*operand.value->definition)) {
    operand.value = operand.value->definition->operands[0];
    operand.turned = !operand.turned;
  }
  return operand;
}

bool on_tensor_cores(const Op& mma) {
  const Type &x = mma.type(0), &y = mma.type(1), &sums = mma.type(2);
  const bool small = (x.dtype == DType::f16 || x.dtype == DType::bf16) && y.dtype == x.dtype;
  return small && sums.dtype == DType::f32 && x.rank() == 2 && x.shape[0] % 16 == 0 && x.shape[1] % 16 == 0 &&
         y.shape[1] % 16 == 0;
}

StagingPlan::StagingPlan(const Function& function, const KernelArrays& arrays) {
  Users users;
  walk(function.body(), [&](const Op& op) {
    for (const Value* operand : op.operands) users[operand].push_back(&op);
  });
  visit(arrays, function.body(), users);
}

void StagingPlan::visit(const KernelArrays& arrays, const Block& block, const Users& users) {
  for (const auto& op : block.ops) {
    for (const auto& region : op->regions) visit(arrays, *region, users);
    if (turns(*op) && only_multiplied(op->results[0], users)) turned_.insert(op.get());
    if (!op->is("load") || op->results[0]->type.rank() != 2 || !only_multiplied(op->results[0], users))
      continue;
    if (op->number("pad") != 0) continue;
    const ArrayFacts facts = arrays.facts(op->operands[0]);
    const Shape& shape = op->results[0]->type.shape;
    if (!facts.constant || vector_width(facts, DType::bf16, shape, op->integers("steps")) != 8) continue;
    Staged staged;
    staged.load = op.get();
    staged.turned = facts.unit == 0;
    staged.rows = static_cast<int>(shape[staged.turned ? 1 : 0]);
    staged.width = static_cast<int>(shape[staged.turned ? 0 : 1]);
    // Threads are dealt out evenly over the 16-byte chunks of a row.
    if (!std::has_single_bit(static_cast<unsigned>(staged.width / 8))) continue;
    const Op* around = block.parent;
    staged.loop = around && around->is("for") && address_ops(*op, block, staged.address) ? around : nullptr;
    staged_.emplace(op.get(), std::move(staged));
    order_.push_back(op.get());
  }
}

const Staged* StagingPlan::of(const Op& load) const {
  const auto found = staged_.find(&load);
  return found == staged_.end() ? nullptr : &found->second;
}

const Op* StagingPlan::product_of(const Op& loop) const {
  const Op* product = nullptr;
  for (const auto& op : loop.region().ops) {
    // What stands in a branch reads a buffer when the next turn's fragments are loaded already.
    if (!op->regions.empty()) return nullptr;
    const Type* made = op->results.empty() ? nullptr : &op->results[0]->type;
    if (!made || made->is_array() || made->is_scalar() || read_turned(*op)) continue;
    if (const Staged* staged = of(*op); staged && staged->loop == &loop) continue;
    if (product || !op->is("mma") || !on_tensor_cores(*op)) return nullptr;
    product = op.get();
  }
  if (!product || product->operands[2]->owner != &loop.region()) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    const Op* load = mma_operand(product->operands[i]).value->definition;
    const Staged* staged = load ? of(*load) : nullptr;
    if (!staged || staged->loop != &loop) return nullptr;
  }
  return product;
}

std::vector<const Staged*> StagingPlan::ahead_of(const Op& loop) const {
  std::vector<const Staged*> all;
  for (const Op* load : order_)
    if (const Staged& staged = staged_.at(load); staged.loop == &loop) all.push_back(&staged);
  return all;
}

}  // namespace tile::cuda
