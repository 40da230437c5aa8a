// Analyses the uses of loads and the ops that their addresses need.
#include "cuda/staging.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "cuda/fma_plan.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

bool is_vector(const Type& type) { return !type.is_array() && type.rank() == 1; }

}  // namespace

bool transposes(const Op& op) {
  return op.is("permute") && op.integers("axes") == std::vector<int64_t>{1, 0};
}
bool rounds_to_tf32(const Op& op) {
  return op.is("astype") && op.results[0]->type.dtype == DType::tf32 && op.type(0).dtype == DType::f32;
}

Users users_of(const Block& block) {
  Users users;
  walk(block, [&](const Op& op) {
    for (const Value* operand : op.operands) users[operand].push_back(&op);
  });
  return users;
}
bool only_multiplied(const Value* value, const Users& users,
                     const std::function<bool(const Op&)>& multiplies) {
  const auto found = users.find(value);
  if (found == users.end()) return false;
  return std::all_of(found->second.begin(), found->second.end(), [&](const Op* user) {
    if (transposes(*user) || rounds_to_tf32(*user))
      return only_multiplied(user->results[0], users, multiplies);
    return user->is("mma") && user->operands[2] != value && multiplies(*user);
  });
}
bool StagingPlan::by_blocks(const Op& mma) const { return !instruction(mma) && multiplies_by_blocks(mma); }
bool loads_scalar(const Op& op, const KernelArrays& arrays) {
  return op.is("load") && op.results[0]->type.is_scalar() && arrays.facts(op.operands[0]).constant;
}
bool StagingPlan::only_multiplied(const Value* value, const Users& users) const {
  return cuda::only_multiplied(value, users, [&](const Op& mma) { return multiplies(mma); });
}

bool uses_results(const Op& op, const Op& made) {
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [&](const Value* operand) { return operand->definition == &made; });
}

bool address_ops(const Op& load, const Block& body, std::vector<const Op*>& ops,
                 const KernelArrays* constant) {
  std::unordered_set<const Op*> needed;
  const bool indexed = load.operands.size() > 1 && is_vector(load.type(1));
  const auto loads_few = [&](const Op& op) {
    if (!constant || !(op.is("load") || op.is("gather"))) return false;
    const Type& type = op.results[0]->type;
    return (element_count(type.shape) == 1 || (indexed && is_vector(type))) &&
           constant->facts(op.operands[0]).constant;
  };
  const std::function<bool(const Op&)> add = [&](const Op& op) {
    for (const Value* operand : op.operands) {
      const Op* definition = operand->definition;
      if (!definition || definition->parent != &body || needed.count(definition)) continue;
      if (!definition->traits().pure() && !loads_few(*definition)) return false;
      if (!definition->regions.empty() || !add(*definition)) return false;
      needed.insert(definition);
    }
    // A loop-carried value is not known ahead.
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
  for (const Op* made = value->definition; made && (transposes(*made) || rounds_to_tf32(*made));
       made = operand.value->definition) {
    operand.transposed = operand.transposed != transposes(*made);
    operand.value = made->operands[0];
  }
  return operand;
}

int64_t Staged::bytes() const {
  const int64_t row = int64_t{width} * info(dtype()).bytes;
  return crossed ? (rows * ((row / 16 | 1) * 16) + 127) / 128 * 128 : rows * row;
}

StagingPlan::StagingPlan(const Function& function, const KernelArrays& arrays, int arch, int64_t shared_bytes)
    : arch_(arch) {
  const Users users = users_of(function.body());
  visit(arrays, function.body(), users);
  const auto most_of = [&](bool staged_too) {
    int64_t most = 0;
    walk(function.body(), [&](const Op& op) {
      if (!op.is("mma") || !multiplies(op)) return;
      int64_t bytes = 0;
      for (size_t i = 0; i < 2; ++i)
        if (staged_too || !staged(op.operands[i])) bytes += bytes_of(mma_operand(op.operands[i]).value->type);
      most = std::max(most, bytes);
    });
    return most;
  };
  const bool fits = bytes_at_once(function.body()) <= shared_bytes;
  if (!fits) limit(function.body(), 0, shared_bytes - most_of(true));
  written_bytes_ = most_of(false);
  if (fits) cross(function);
  walk(function.body(), [&](const Op& op) {
    if (!op.is("mma")) return;
    for (size_t i = 0; i < 2; ++i)
      if (const Staged* tile = staged(op.operands[i])) {
        Staged& known = staged_.at(tile->load);
        known.by_blocks = known.by_blocks && by_blocks(op);
        known.flat = known.flat && known.by_blocks && across_rows(op, i);
      }
  });
}

// A thread that reads both operands across k has registers to read the next step's elements ahead. Large
// products have the most sums, and use each copied element most often.
void StagingPlan::cross(const Function& function) {
  constexpr int64_t large = 128 * 64;  // 64 sums a thread
  constexpr int deep = 8;              // elements along k that a warp copies at once
  std::unordered_map<const Op*, bool> crosses;
  walk(function.body(), [&](const Op& op) {
    if (!op.is("mma")) return;
    for (size_t i = 0; i < 2; ++i)
      if (const Staged* tile = staged(op.operands[i])) {
        const bool may = tile->loop && !tile->by_rows && by_blocks(op) && !across_rows(op, i) &&
                         op.type(0).shape[1] % deep == 0 && element_count(op.type(2).shape) >= large;
        crosses.try_emplace(tile->load, true).first->second &= may;
      }
  });
  for (const auto& [load, yes] : crosses) {
    if (!yes) continue;
    Staged& tile = staged_.at(load);
    tile.crossed = true;
    tile.transposed = !tile.transposed;
    std::swap(tile.rows, tile.width);
  }
}

int64_t StagingPlan::bytes_at_once(const Block& block, const Op* but_ahead_of) const {
  int64_t taken = 0, most = 0;
  for (const auto& op : block.ops) {
    for (const auto& region : op->regions)
      most = std::max(most, taken + bytes_at_once(*region, but_ahead_of));
    const Staged* staged = of(*op);
    if (staged && (!but_ahead_of || staged->loop != but_ahead_of)) taken += staged->bytes();
  }
  return std::max(most, taken);
}

void StagingPlan::limit(const Block& block, int64_t taken, int64_t most) {
  for (const auto& op : block.ops) {
    for (const auto& region : op->regions) limit(*region, taken, most);
    const Staged* staged = of(*op);
    if (!staged) continue;
    if (taken + staged->bytes() <= most) {
      taken += staged->bytes();
      continue;
    }
    staged_.erase(op.get());
    std::erase(order_, op.get());
  }
}

void StagingPlan::visit(const KernelArrays& arrays, const Block& block, const Users& users) {
  for (const auto& op : block.ops) {
    for (const auto& region : op->regions) visit(arrays, *region, users);
    if ((transposes(*op) || rounds_to_tf32(*op)) && only_multiplied(op->results[0], users))
      left_to_products_.insert(op.get());
    const bool by_rows = op->is("gather_rows");
    if ((!by_rows && !op->is("load")) || op->results[0]->type.rank() != 2 ||
        !only_multiplied(op->results[0], users))
      continue;
    if (op->number("pad") != 0) continue;
    const ArrayFacts facts = arrays.facts(op->operands[0]);
    if (by_rows && (op->integer("axis") != 0 || facts.unit != 1)) continue;
    const Type& type = op->results[0]->type;
    const Shape& shape = type.shape;
    const int chunk = 16 / info(type.dtype).bytes;  // elements
    if (!facts.constant || vector_width(facts, type.dtype, shape, op->integers("steps")) != chunk) continue;
    Staged staged;
    staged.load = op.get();
    staged.transposed = facts.unit == 0;
    staged.by_blocks = staged.flat = true;
    staged.crossed = false;
    staged.by_rows = by_rows;
    staged.rows = static_cast<int>(shape[staged.transposed ? 1 : 0]);
    staged.width = static_cast<int>(shape[staged.transposed ? 0 : 1]);
    const Op* around = block.parent;
    staged.loop =
        around && around->is("for") && address_ops(*op, block, staged.address, &arrays) ? around : nullptr;
    staged_.emplace(op.get(), std::move(staged));
    order_.push_back(op.get());
  }
}

const Staged* StagingPlan::of(const Op& load) const {
  const auto found = staged_.find(&load);
  return found == staged_.end() ? nullptr : &found->second;
}

bool StagingPlan::across_rows(const Op& mma, size_t i) const {
  const Staged* lies = staged(mma.operands[i]);
  return (mma_operand(mma.operands[i]).transposed != (lies && lies->transposed)) == (i == 0);
}

const Staged* StagingPlan::staged(const Value* operand) const {
  const Op* load = mma_operand(operand).value->definition;
  return load ? of(*load) : nullptr;
}

const Op* StagingPlan::product_of(const Op& loop) const {
  const Op* product = nullptr;
  for (const auto& op : loop.region().ops) {
    // A product in a branch would read the buffer only after the next iteration's fragments are loaded.
    if (!op->regions.empty()) return nullptr;
    const Type* made = op->results.empty() ? nullptr : &op->results[0]->type;
    if (!made || made->is_array() || made->is_scalar() || left_to_products(*op)) continue;
    if (const Staged* staged = of(*op); staged && staged->loop == &loop) continue;
    if (product || !op->is("mma") || !instruction(*op)) return nullptr;
    product = op.get();
  }
  if (!product || product->operands[2]->owner != &loop.region()) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    const Staged* prefetch = staged(product->operands[i]);
    if (!prefetch || prefetch->loop != &loop) return nullptr;
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
