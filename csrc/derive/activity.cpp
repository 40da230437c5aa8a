// Finds active values, and checks what a kernel does with its arrays.
#include "derive/activity.h"

#include "derive/invariance.h"
#include "derive/ramp.h"
#include "derive/reach.h"
#include "ir/walk.h"
#include "prims/adjoints.h"

namespace tile {
namespace {

bool is_float(const Value* value) { return !value->type.is_array() && is_floating(value->type.dtype); }

// A loop without bounds has no gradient: it counts iterations.
bool only_counts(const Op& op) {
  for (const Op* at = op.parent->parent; at; at = at->parent->parent)
    if (at->is("loop")) return true;
  return false;
}

template <class... A>
[[noreturn]] void refuse(const Op& op, const A&... parts) {
  fail(op, ErrorKind::unsupported, "has no derivative: ", parts...);
}

}  // namespace

Activity::Activity(const Function& kernel, const std::vector<size_t>& inputs,
                   const std::vector<size_t>& results, const std::vector<size_t>& saved)
    : inputs_(inputs.begin(), inputs.end()),
      results_(results.begin(), results.end()),
      invariant_(invariant_extremes(kernel, saved)) {
  const auto& parameters = kernel.body().arguments;
  uses_.resize(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) parameter_[parameters[i]] = i;
  const UseCounts counts = count_uses(kernel.body());
  walk(kernel.body(), [&](const Op& op) {
    const Traits& traits = op.traits();
    if (traits.impure) refuse(op, "computed again, it may differ");
    if (!traits.reads && !traits.writes) return;
    ArrayUses& uses = uses_[parameter_.at(root_array(op.operands[0]))];
    if (!traits.writes && !uses.first_read) uses.first_read = &op;
    if (traits.writes || !only_counts(op))
      (traits.writes ? traits.reads ? uses.additions : uses.stores : uses.reads).push_back(&op);
    if (!traits.writes) return;
    for (const Value* result : op.results)
      if (counts.contains(result)) refuse(op, "its result is used, and it cannot be run again");
  });
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ArrayUses& uses = uses_[i];
    if (uses.first_read && !(uses.stores.empty() && uses.additions.empty()))
      refuse(*uses.first_read, "it reads an array that the kernel writes; read and write different arrays");
    if (is_result(i)) check_result(kernel, i);
  }
  do {
    changed_ = false;
    find(kernel.body());
  } while (changed_);
}

void Activity::check_result(const Function& kernel, size_t parameter) {
  const ArrayUses& uses = uses_[parameter];
  if (!uses.stores.empty() && !uses.additions.empty())
    refuse(*uses.additions[0], "it adds to an array that the kernel stores to, too");
  std::vector<const Op*> tiles;
  for (const Op* store : uses.stores) {
    if (!store->traits().picks) {
      tiles.push_back(store);
      continue;
    }
    if (uses.stores.size() == 1 && !distinct_ramps(*store).empty())
      if (const Reach reach = reach_of(kernel, {store}); reach.shared.empty() && reach.once) return;
    if (!is_loaded(*store))
      refuse(*store,
             "its indices may name an element twice; count them by arange() from bid() times its extent");
    if (uses.stores.size() > 1)
      refuse(*store, "the kernel stores to this array elsewhere, too, perhaps to the same elements");
    if (const std::string ignored = ignored_by(kernel, *store); !ignored.empty())
      refuse(*store, "its address does not depend on ", ignored, ", so that elements are stored repeatedly");
  }
  const Reach reach = reach_of(kernel, tiles);
  if (reach.shared.empty() && reach.once) return;
  const Op& store = *tiles.back();
  if (tiles.size() > 1 && !reach.once)
    refuse(store, "several stores to the array may reach the same elements");
  if (!reach.shared.empty())
    refuse(store, "blocks along axis ", reach.shared[0],
           " of the grid may store the same elements; the index must determine the block");
  refuse(store, "iterations of a loop may store the same elements; store after the loop");
}

bool Activity::mark(const Value* value) {
  if (is_float(value)) changed_ |= active_.insert(value).second;
  return active_.contains(value);
}

void Activity::find(const Block& block) {
  for (const auto& each : block.ops) {
    const Op& op = *each;
    if (op.traits().reads && !op.traits().writes) {
      if (is_input(parameter_.at(root_array(op.operands[0])))) mark(op.result());
      continue;
    }
    if (op.is("for") || op.is("loop")) {
      // A carried value is active in all of its places if it is in one.
      const size_t bounds = op.is("for") ? 3 : 0, index = op.is("for") ? 1 : 0;
      find(op.region());
      for (size_t i = 0; i < op.results.size(); ++i) {
        bool any = active(op.operands[bounds + i]) || active(op.region().arguments[index + i]);
        walk(op.region(), [&](const Op& end) {
          if (end.traits().terminator && i < end.operands.size() && !end.is("yield") && op.is("loop"))
            any |= active(end.operands[i]);  // of an inner loop perhaps: then it is only marked too often
        });
        if (op.is("for")) any |= active(op.region().terminator()->operands[i]);
        if (any) mark(op.region().arguments[index + i]), mark(op.results[i]);
      }
      continue;
    }
    if (op.is("if")) {
      for (const auto& region : op.regions) {
        find(*region);
        const Op* end = region->terminator();
        for (size_t i = 0; end && end->is("yield") && i < op.results.size(); ++i)
          if (active(end->operands[i])) mark(op.results[i]);
      }
      continue;
    }
    bool any = false;
    for (const Value* operand : op.operands) any |= active(operand);
    for (const auto& region : op.regions)
      walk(*region, [&](const Op& inner) {
        for (const Value* operand : inner.operands) any |= active(operand);
      });
    if (any && op.primitive->adjoint != no_adjoint)
      for (const Value* result : op.results)
        if (!invariant_.contains(result)) mark(result);
  }
}

}  // namespace tile
