// Splits a loop so that the iterations in which no mask has an effect get their own loop without the mask:
// for a masked tail these are all but the last iteration, for a causal diagonal all iterations before it. The
// other loops are marked edge = 1. All parts of a loop have its number, counted from 1, as split.
//
//   for i in low..high { mask(i) }
//
// becomes
//
//   for i in low..start  { mask(i) }  edge, if some mask ends there
//   for i in start..stop { true    }
//   for i in stop..high  { mask(i) }  edge, if some mask begins there
#include "ir/build.h"
#include "ir/walk.h"
#include "passes/bounds.h"
#include "passes/comparisons.h"
#include "passes/passes.h"

namespace tile {
namespace {

constexpr size_t largest_body = 400;  // ops; splitting copies the body

// A linear form that must be nonnegative in the main loop: coefficient * index + rest.
struct Condition {
  int64_t coefficient;
  Linear rest;
};

class Splitter {
 public:
  Splitter(Function& function, const PipelineOptions& options)
      : function_(function), options_(options), bounds_(function) {}

  bool block(Block& block) {
    bool changed = false;
    for (size_t i = 0; i < block.ops.size(); ++i) {
      Op& op = *block.ops[i];
      bool inner = false;
      for (auto& region : op.regions) changed |= this->block(*region);
      for (auto& region : op.regions)
        walk(*region, [&](const Op& each) { inner |= each.is("for") || each.is("loop"); });
      if (!op.is("for") || inner || op.has("edge") || !collect(op)) continue;
      i += split(block, i) - 1;
      changed = true;
    }
    return changed;
  }

 private:
  // Finds the masks (and, if requested, the accesses) that depend on the index, and the conditions that
  // decide them.
  bool collect(Op& loop) {
    masks_.clear();
    accesses_.clear();
    conditions_.clear();
    size_t count = 0;
    walk(loop.region(), [&](const Op&) { ++count; });
    std::optional<Constant> step = constant_of(loop.operands[2]);
    DType dtype = loop.type(0).dtype;
    if (!step || step->integer < 1 || (dtype != DType::i32 && dtype != DType::i64) || count > largest_body)
      return false;
    step_ = step->integer;
    Value* index = loop.region().arguments[0];
    walk(loop.region(), [&](Op& op) {
      if (const Comparison* comparison = find_comparison(op.name())) mask(op, *comparison, loop, index);
      const Access* access = options_.split_tails ? find_access(op.name()) : nullptr;
      if (access && !op.has("in_bounds")) tail(op, *access, loop, index);
    });
    return !masks_.empty() || !accesses_.empty();
  }

  void mask(Op& op, const Comparison& comparison, const Op& loop, Value* index) {
    std::optional<Linear> x = bounds_.linear(op.operands[0]), y = bounds_.linear(op.operands[1]);
    if (!x || !y || comparison.sign == 0) return;
    std::optional<Condition> condition = condition_of(comparison.forms(*x, *y, true)[0], loop, index);
    if (!condition || condition->coefficient == 0) return;
    conditions_.push_back(*condition);
    masks_.push_back(&op);
  }

  void tail(Op& op, const Access& access, const Op& loop, Value* index) {
    std::vector<Condition> found;
    bool moves = false;
    for (const std::optional<Linear>& form : access.forms(op, bounds_)) {
      if (form && bounds_.nonnegative(*form)) continue;
      std::optional<Condition> condition = form ? condition_of(*form, loop, index) : std::nullopt;
      if (!condition) return;
      moves |= condition->coefficient != 0;
      found.push_back(*condition);
    }
    if (!moves) return;
    conditions_.insert(conditions_.end(), found.begin(), found.end());
    accesses_.push_back(&op);
  }

  // All terms but the index must be available before the loop, in the index's dtype or one that widens to it.
  std::optional<Condition> condition_of(Linear form, const Op& loop, Value* index) {
    Condition condition{form.coefficient(index), {}};
    form.erase(index);
    for (const Linear::Term& term : form.terms) {
      const Value* origin = bounds_.is_extent(term.value) ? term.value->definition->operands[0] : term.value;
      if (defined_inside(origin, loop.region())) return std::nullopt;
      if (info(term.value->type.dtype).bits > info(loop.type(0).dtype).bits) return std::nullopt;
    }
    condition.rest = std::move(form);
    return condition;
  }

  // Replaces the loop at `position` by its parts; returns how many ops were inserted.
  size_t split(Block& block, size_t position) {
    ++splits_;
    std::unique_ptr<Op> loop = std::move(block.ops[position]);
    block.ops.erase(block.ops.begin() + static_cast<ptrdiff_t>(position));
    Builder build(function_, block);
    build.at(block, position);
    build.location = loop->location;
    Value *low = loop->operands[0], *high = loop->operands[1];
    Value *start = nullptr, *stop = nullptr, *guard = nullptr;
    auto join = [&](std::string_view name, Value* x, Value* y) {
      return x && x != y ? build.emit(name, {x, y}) : y;
    };
    for (const Condition& condition : conditions_) {
      auto number = [&](int64_t value) { return build.constant(low->type.dtype, value); };
      auto rest = [&](int64_t offset) { return sum(build, condition.rest, offset, low->type.dtype); };
      int64_t by = std::abs(condition.coefficient);
      if (condition.coefficient < 0)  // rest - by * i >= 0 while i < (rest + by) / by
        stop = join("minimum", stop, build.emit("floordiv", {rest(by), number(by)}));
      else if (condition.coefficient > 0)  // by * i + rest >= 0 from i = -rest / by, rounded up
        start = join("maximum", start, build.emit("cdiv", {build.emit("neg", {rest(0)}), number(by)}));
      else
        guard = join("bitwise_and", guard, build.emit("ge", {rest(0), number(0)}));
    }
    std::vector<Value*> carried(loop->operands.begin() + 3, loop->operands.end());
    Value* at = low;
    if (start) {
      start = build.emit("minimum", {start, high});
      carried = part(build, *loop, at, start, carried, false);
      at = aligned(build, low, at, start);
    }
    Value* end = stop ? build.emit("minimum", {stop, high}) : high;
    if (guard) end = build.emit("where", {guard, end, at});
    carried = part(build, *loop, at, end, carried, true);
    if (stop || guard) carried = part(build, *loop, aligned(build, low, at, end), high, carried, false);
    ValueMap results;
    for (size_t i = 0; i < carried.size(); ++i) results[loop->results[i]] = carried[i];
    replace_uses(function_.body(), results);
    dropped_.push_back(std::move(loop));
    return build.position() - position;
  }

  Value* sum(Builder& build, const Linear& form, int64_t offset, DType dtype) {
    Value* total = nullptr;
    for (const Linear::Term& term : form.terms) {
      Value* value = term.value;
      if (bounds_.is_extent(value)) {
        const Op& extent = *value->definition;
        value = build.emit(*extent.primitive, extent.operands, extent.attributes);
      }
      value = build.astype(value, dtype);
      int64_t factor = std::abs(term.coefficient);
      if (factor != 1) value = build.emit("mul", {value, build.constant(dtype, factor)});
      if (total)
        total = build.emit(term.coefficient < 0 ? "sub" : "add", {total, value});
      else
        total = term.coefficient < 0 ? build.emit("neg", {value}) : value;
    }
    if (total && form.low + offset == 0) return total;
    Value* constant = build.constant(dtype, form.low + offset);
    return total ? build.emit("add", {total, constant}) : constant;
  }

  // Returns the first index, in the loop's steps, that is at least `stop`.
  Value* aligned(Builder& build, Value* low, Value* at, Value* stop) {
    Value* next = build.emit("maximum", {at, stop});
    if (step_ == 1) return next;
    Value* step = build.constant(low->type.dtype, step_);
    Value* iterations = build.emit("cdiv", {build.emit("sub", {next, low}), step});
    return build.emit("add", {low, build.emit("mul", {iterations, step})});
  }

  std::vector<Value*> part(Builder& build, const Op& loop, Value* low, Value* high,
                           const std::vector<Value*>& carried, bool main) {
    Value* yes = main && !masks_.empty() ? build.constant(DType::boolean, 1) : nullptr;
    ValueMap map;
    std::unique_ptr<Op> copy = clone(loop, function_, map);
    copy->operands = {low, high, loop.operands[2]};
    copy->operands.insert(copy->operands.end(), carried.begin(), carried.end());
    Op& inserted = *copy;
    for (Value* result : copy->results) result->owner = &build.block();
    inserted.attributes.set("split", splits_);
    build.insert(std::move(copy));
    if (!main) {
      inserted.attributes.set("edge", int64_t{1});
      return inserted.results;
    }
    ValueMap known;
    for (Op* mask : masks_) {
      Value* result = map.at(mask->result());
      if (result->type.is_scalar()) known[result] = yes;
      Op& op = *result->definition;  // the whole tile is true
      op.primitive = &primitive("broadcast");
      op.operands = {yes};
      op.attributes = {{"shape", result->type.shape}};
    }
    if (!known.empty()) replace_uses(inserted.region(), known);
    std::vector<Op*> originals, copies;  // walked in parallel: stores have no results to map
    walk(loop.region(), [&](Op& op) { originals.push_back(&op); });
    walk(inserted.region(), [&](Op& op) { copies.push_back(&op); });
    for (size_t i = 0; i < originals.size(); ++i)
      for (const Op* access : accesses_)
        if (originals[i] == access) copies[i]->attributes.set("in_bounds", int64_t{1});
    return inserted.results;
  }

  Function& function_;
  const PipelineOptions& options_;
  Bounds bounds_;
  int64_t step_ = 1, splits_ = 0;
  std::vector<Op*> masks_, accesses_;
  std::vector<Condition> conditions_;
  std::vector<std::unique_ptr<Op>> dropped_;
};

}  // namespace

bool split_loops(Function& function, const PipelineOptions& options) {
  return Splitter(function, options).block(function.body());
}

}  // namespace tile
