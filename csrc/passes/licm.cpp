// Loop-invariant code motion: ops whose operands do not change in a loop are moved before it. Loads are moved
// if the loop does not write their array; they are padded, so they may run even if the loop does not.
// Constants and broadcasts only move together with an op that needs them: inside the loop they are free,
// outside they would be live throughout it.
#include <unordered_set>

#include "ir/walk.h"
#include "passes/passes.h"

namespace tile {
namespace {

class Mover {
 public:
  bool block(Block& outer) {
    bool changed = false;
    for (size_t i = 0; i < outer.ops.size(); ++i) {
      Op& op = *outer.ops[i];
      for (auto& region : op.regions)
        changed |= block(*region);  // inner loops first: ops may then leave the outer loop as well
      if (!op.is("for") && !op.is("loop")) continue;
      std::vector<std::unique_ptr<Op>> moved = invariants(op);
      if (moved.empty()) continue;
      changed = true;
      for (auto& each : moved) {
        each->parent = &outer;
        for (Value* result : each->results) result->owner = &outer;
      }
      size_t count = moved.size();
      outer.ops.insert(outer.ops.begin() + static_cast<ptrdiff_t>(i), std::make_move_iterator(moved.begin()),
                       std::make_move_iterator(moved.end()));
      i += count;
    }
    return changed;
  }

 private:
  static bool free_inside(const Op& op) { return op.is("constant") || op.is("broadcast"); }

  // Removes the invariant ops from the loop and returns them in order.
  std::vector<std::unique_ptr<Op>> invariants(Op& loop) {
    Block& body = loop.region();
    Effects effects = effects_of(loop);
    std::unordered_set<const Op*> movable, leaving;
    auto stays = [&](const Value* value) {
      return defined_inside(value, body) && !(value->definition && movable.count(value->definition));
    };
    for (const auto& op : body.ops) {
      if (!may_move(*op, effects)) continue;
      bool inner = false;
      for (const Value* operand : op->operands) inner |= stays(operand);
      for (const auto& region : op->regions)
        walk(*region, [&](const Op& each) {
          for (const Value* operand : each.operands)
            inner |= !defined_inside(operand, *region) && stays(operand);
        });
      if (!inner) movable.insert(op.get());
    }
    for (size_t i = body.ops.size(); i-- > 0;) {
      const Op& op = *body.ops[i];
      if (movable.count(&op) && !free_inside(op)) take(op, movable, leaving);
    }
    std::vector<std::unique_ptr<Op>> moved;
    if (leaving.empty()) return moved;
    for (auto& op : body.ops)
      if (leaving.count(op.get())) moved.push_back(std::move(op));
    std::erase(body.ops, nullptr);
    return moved;
  }

  void take(const Op& op, const std::unordered_set<const Op*>& movable,
            std::unordered_set<const Op*>& leaving) {
    if (!leaving.insert(&op).second) return;
    auto needs = [&](const Op& each) {
      for (const Value* operand : each.operands)
        if (operand->definition && movable.count(operand->definition))
          take(*operand->definition, movable, leaving);
    };
    needs(op);
    for (const auto& region : op.regions) walk(*region, needs);
  }

  bool may_move(const Op& op, const Effects& loop) {
    const Traits& traits = op.traits();
    if (traits.terminator || traits.impure || op.is("loop")) return false;  // `loop` might not end
    Effects effects = op.regions.empty() && traits.pure() ? Effects{} : effects_of(op);
    if (effects.barrier || effects.other || !effects.writes.empty()) return false;
    if (!effects.reads.empty() && (loop.barrier || loop.conflicts(effects))) return false;
    bool jumps = false;
    for (const auto& region : op.regions)
      walk(*region,
           [&](const Op& each) { jumps |= each.is("break") || each.is("continue") || each.traits().impure; });
    return !jumps;
  }
};

}  // namespace

bool licm(Function& function) { return Mover().block(function.body()); }

}  // namespace tile
