// Implements uses, replacement, effects and cloning.
#include "ir/walk.h"

#include <algorithm>

#include "support/text.h"

namespace tile {

UseCounts count_uses(const Block& block) {
  UseCounts uses;
  walk(block, [&](const Op& op) {
    for (const Value* operand : op.operands) ++uses[operand];
  });
  return uses;
}

void replace(Value*& value, const ValueMap& replacements) {
  if (const auto at = replacements.find(value); at != replacements.end()) value = at->second;
}

void replace_uses(Block& block, const ValueMap& replacements) {
  if (replacements.empty()) return;
  walk(block, [&](Op& op) {
    for (Value*& operand : op.operands)
      for (auto at = replacements.find(operand); at != replacements.end(); at = replacements.find(operand))
        operand = at->second;
  });
}

std::optional<Constant> constant_of(const Value* value) {
  const Op* op = value->definition;
  while (op && op->is("broadcast")) op = op->operands[0]->definition;
  if (!op || !op->is("constant")) return std::nullopt;
  return Constant::of(op->dtype("dtype"), *op->attributes.find("value"));
}

const Value* root_array(const Value* array) {
  while (array->definition) {
    const Value* next = nullptr;
    for (const Value* operand : array->definition->operands)
      if (operand->type.is_array()) {
        next = operand;
        break;
      }
    if (!next) return array;
    array = next;
  }
  return array;
}

bool apart(const Value* a, const Value* b) {
  for (const Op* left = a->definition; left; left = left->operands[0]->definition)
    for (const Op* right = b->definition; right; right = right->operands[0]->definition) {
      if (!left->is("index") || !right->is("index") || left->operands[0] != right->operands[0]) continue;
      for (size_t i = 1; i < std::min(left->operands.size(), right->operands.size()); ++i) {
        const auto x = constant_of(left->operands[i]), y = constant_of(right->operands[i]);
        if (x && y && !(*x == *y)) return true;
      }
    }
  return false;
}

Effects effects_of(const Op& op) {
  Effects effects;
  auto add = [&](const Op& each) {
    const Traits& traits = each.traits();
    effects.barrier |= traits.barrier;
    effects.other |= traits.effect;
    if (!traits.reads && !traits.writes) return;
    for (const Value* operand : each.operands)
      if (operand->type.is_array()) {
        if (traits.reads) effects.reads.insert(root_array(operand));
        if (traits.writes) effects.writes.insert(root_array(operand));
      }
  };
  add(op);
  for (const auto& region : op.regions) walk(*region, add);
  return effects;
}

bool is_wide_array(const Function& function, const Value* array) {
  if (function.attributes().empty()) return false;
  const auto& parameters = function.body().arguments;
  const auto at = std::find(parameters.begin(), parameters.end(), root_array(array));
  return at != parameters.end() &&
         function.attributes().find(str("array.", at - parameters.begin(), ".wide")) != nullptr;
}

bool has_jump(const Op& op) {
  if (op.is("break") || op.is("continue")) return true;
  if (!op.is("if")) return false;
  for (const auto& region : op.regions)
    for (const auto& inner : region->ops)
      if (has_jump(*inner)) return true;
  return false;
}

bool Effects::conflicts(const Effects& later) const {
  if ((barrier && later.any()) || (later.barrier && any()) || (other && later.other)) return true;
  // After a failed assertion nothing may be written.
  if ((other && !later.writes.empty()) || (later.other && !writes.empty())) return true;
  for (const Value* array : writes)
    if (later.reads.count(array) || later.writes.count(array)) return true;
  for (const Value* array : reads)
    if (later.writes.count(array)) return true;
  return false;
}

bool defined_inside(const Value* value, const Block& block) {
  for (const Block* at = value->owner; at; at = at->parent ? at->parent->parent : nullptr)
    if (at == &block) return true;
  return false;
}

std::unique_ptr<Op> clone(const Op& op, Function& function, ValueMap& map) {
  auto copy = std::make_unique<Op>();
  copy->primitive = op.primitive;
  copy->attributes = op.attributes;
  copy->location = op.location;
  copy->operands = op.operands;
  for (Value*& operand : copy->operands) replace(operand, map);
  for (const auto& region : op.regions) {
    auto block = std::make_unique<Block>();
    block->parent = copy.get();
    for (Value* argument : region->arguments)
      map[argument] = function.add_argument(*block, argument->type, argument->location);
    for (const auto& inner : region->ops) {
      block->ops.push_back(clone(*inner, function, map));
      Op& added = *block->ops.back();
      added.parent = block.get();
      for (Value* result : added.results) result->owner = block.get();
    }
    copy->regions.push_back(std::move(block));
  }
  for (Value* result : op.results)
    copy->results.push_back(map[result] =
                                function.add_value(result->type, result->location, copy.get(), nullptr));
  return copy;
}

Function clone(const Function& function) {
  Function copy(function.name());
  copy.attributes() = function.attributes();
  ValueMap map;
  for (Value* argument : function.body().arguments)
    map[argument] = copy.add_argument(copy.body(), argument->type, argument->location);
  for (const auto& op : function.body().ops) {
    copy.body().ops.push_back(clone(*op, copy, map));
    Op& added = *copy.body().ops.back();
    added.parent = &copy.body();
    for (Value* result : added.results) result->owner = &copy.body();
  }
  return copy;
}

}  // namespace tile
