// Counts the iterations of loops that end by a condition, and bounds them where a comparison does.
#include "derive/counted_loops.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "derive/iteration_paths.h"
#include "passes/liveness.h"

namespace tile {
namespace {

constexpr int64_t most = std::numeric_limits<int32_t>::max();  // iterations, which are counted in i32

bool writes(const Op& op) { return !effects_of(op).writes.empty(); }
void remove_effects(Block& block) {
  std::erase_if(block.ops, [](const std::unique_ptr<Op>& op) {
    const Traits& traits = op->traits();
    return op->regions.empty() && (traits.writes || traits.effect);
  });
  for (const auto& op : block.ops)
    for (const auto& region : op->regions) remove_effects(*region);
}
bool is_one(const Value* value) {
  const auto constant = constant_of(value);
  return constant && constant->integer == 1;
}
bool is_zero(const Value* value) {
  const auto constant = constant_of(value);
  return constant && constant->integer == 0;
}

// The first condition of a body, if one of its regions only leaves the loop.
struct Test {
  const Op* branch = nullptr;
  size_t leaving = 0;  // number of the region
  // It comes before any write, and leaves with the values that the iteration began with.
  bool leading = false;
};
std::optional<Test> test_of(const Block& body) {
  bool wrote = false;
  for (const auto& op : body.ops) {
    if (op->traits().terminator) break;
    if (!has_jump(*op)) {
      wrote |= writes(*op);
      continue;
    }
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (ends_of(op->region(i)) != leaves || ends_of(op->region(1 - i)) == leaves) continue;
      const Block& region = op->region(i);
      return Test{op.get(), i, !wrote && region.ops.size() == 1 && region.ops[0]->operands == body.arguments};
    }
    return std::nullopt;
  }
  return std::nullopt;
}

// A carried integer that grows by the same step in each iteration.
struct Induction {
  size_t position;
  Value *initial, *step;   // step: outside of the loop
  Value* limit = nullptr;  // it becomes the limit where it would exceed it, as the index of a `for` does
};

// A comparison that holds in each iteration that goes on: value < limit, or value <= limit.
struct Comparison {
  Value *value, *limit;
  bool equal;
};
void comparisons_in(const Value* condition, bool holds, std::vector<Comparison>& list) {
  const Op* op = condition->definition;
  if (!op) return;
  if (op->is(holds ? "bitwise_and" : "bitwise_or")) {
    for (const Value* operand : op->operands) comparisons_in(operand, holds, list);
    return;
  }
  if (op->is("bitwise_not")) return comparisons_in(op->operands[0], !holds, list);
  if (op->is("if")) {  // `x and y`, or `x or y` that does not hold: y is only computed where it decides
    const Op* other = op->region(holds ? 1 : 0).terminator();
    for (size_t i = 0; i < op->results.size(); ++i)
      if (op->results[i] == condition && other->is("yield"))
        if (const auto constant = constant_of(other->operands[i]);
            constant && (constant->integer == 0) == holds)
          comparisons_in(op->operands[0], holds, list);
    return;
  }
  const bool less = op->is("lt") || op->is("le"), greater = op->is("gt") || op->is("ge");
  if (!less && !greater) return;
  const bool equal = (op->is("le") || op->is("ge")) == holds;
  Value *x = op->operands[0], *y = op->operands[1];
  if (less != holds) std::swap(x, y);
  list.push_back({x, y, equal});
}

class Counter {
 public:
  Counter(Function& function, Block& block, const Op& loop, size_t position)
      : function_(function),
        build_(function, block),
        loop_(loop),
        body_(loop.region()),
        test_(test_of(body_)) {
    build_.location = loop.location;
    build_.at(block, position);
    if (test_) comparisons_in(test_->branch->operands[0], test_->leaving == 1, comparisons_);
  }

  // Emits the loops before this one, and returns what replaces its results.
  std::vector<Value*> run() {
    const bool peels = !last_writes();
    const bool leading = !peels && test_ && test_->leading;
    stays_below_ = peels || leading;
    untaken_ = leading ? &test_->branch->region(test_->leaving) : nullptr;
    find_inductions();
    const Induction* range = range_of();
    Value *counted = nullptr, *high = nullptr;
    if (range) {
      high = outside(comparisons_[0].limit);
      counted = build_.emit("cdiv", {build_.emit("sub", {high, range->initial}), range->step});
      counted = build_.emit("maximum", {counted, build_.constant(counted->type.dtype, 0)});
    } else {
      high = counted = count(peels, leading);
      if (Value* bound = stays_below_ ? bound_of() : nullptr) high = build_.emit("minimum", {counted, bound});
    }
    std::vector<Value*> results = insert_for(range, high, peels);
    if (!peels) return results;
    for (const Induction& each : inductions_) results[each.position] = value_after(each, counted);
    return IterationPaths(build_, leaves, arguments(results)).copy(body_);
  }

 private:
  ValueMap arguments(const std::vector<Value*>& values) const {
    ValueMap map;
    for (size_t k = 0; k < values.size(); ++k) map[body_.arguments[k]] = values[k];
    return map;
  }

  bool last_writes() const {
    Block trial;
    Builder build(function_, trial);
    IterationPaths(build, leaves, {}).copy(body_);
    return std::any_of(trial.ops.begin(), trial.ops.end(), [](const auto& op) { return writes(*op); });
  }

  // Emits a loop that counts the iterations that go on; with `leading` those that pass the first test, and
  // otherwise all.
  Value* count(bool peels, bool leading) {
    ValueMap map;
    std::unique_ptr<Op> copy = clone(loop_, function_, map);
    copy->results.clear();
    Block& region = copy->region();
    Value* number = function_.add_argument(region, Type::tile(DType::i32), loop_.location);
    copy->operands.push_back(build_.constant(DType::i32, 0));
    Builder inside(function_, region);
    inside.location = loop_.location;
    inside.at(region, 0);
    Value* next = inside.emit("add", {number, inside.constant(DType::i32, 1)});
    std::vector<const Op*> jumps;
    const auto is_own = [](const Op& op, const Op& loop) {
      return (op.is("break") || op.is("continue")) && loop_around(op) == &loop;
    };
    walk(body_, [&](const Op& op) {
      if (is_own(op, loop_)) jumps.push_back(&op);
    });
    size_t at = 0;
    walk(region, [&](Op& op) {
      if (!is_own(op, *copy)) return;
      const Op& from = *jumps.at(at++);
      const bool excluded = from.is("break") && (peels || (leading && from.parent == untaken_));
      op.operands.push_back(excluded ? number : next);
    });
    remove_effects(region);
    return build_.insert(std::move(copy)).results.back();
  }

  bool is_invariant(const Value* value) const { return !defined_inside(value, body_) || constant_of(value); }
  // A constant may be defined in the body.
  Value* outside(Value* value) {
    if (!defined_inside(value, body_)) return value;
    return build_.splat(*constant_of(value), value->type.shape);
  }

  std::vector<const Op*> jumps_that_go_on() const {
    std::vector<const Op*> list;
    walk(body_, [&](const Op& op) {
      if (op.is("continue") && loop_around(op) == &loop_) list.push_back(&op);
    });
    return list;
  }

  void find_inductions() {
    const std::vector<const Op*> jumps = jumps_that_go_on();
    if (jumps.empty()) return;
    for (size_t k = 0; k < body_.arguments.size(); ++k) {
      const Type& type = body_.arguments[k]->type;
      if (!type.is_scalar() || !is_integer(type.dtype)) continue;
      std::optional<Induction> found;
      bool same = true;
      for (const Op* jump : jumps) {
        const auto own = induction(k, jump->operands[k]);
        same &= own && (!found || (found->step == own->step && found->limit == own->limit));
        found = own;
      }
      if (!same) continue;
      found->step = outside(found->step);
      inductions_.push_back(*found);
    }
  }
  std::optional<Induction> induction(size_t k, const Value* next) const {
    Value* own = body_.arguments[k];
    const Op* op = next->definition;
    if (!op) return std::nullopt;
    if (op->is("add"))
      for (const size_t i : {size_t{0}, size_t{1}})
        if (op->operands[i] == own && is_invariant(op->operands[1 - i]))
          return Induction{k, loop_.operands[k], op->operands[1 - i]};
    // The index of a `for` that has a jump: see next_index() of the tracer.
    if (!op->is("where") || !stays_below_ || defined_inside(op->operands[2], body_)) return std::nullopt;
    Value* limit = op->operands[2];
    const bool tested = std::any_of(comparisons_.begin(), comparisons_.end(), [&](const Comparison& each) {
      return each.value == own && each.limit == limit && !each.equal;
    });
    const auto sum = induction(k, op->operands[1]);
    if (!tested || !sum || sum->limit || !is_left(op->operands[0], limit, own, sum->step))
      return std::nullopt;
    return Induction{k, sum->initial, sum->step, limit};
  }
  // Returns true for the bits of (limit - own) > those of step.
  static bool is_left(const Value* condition, const Value* limit, const Value* own, const Value* step) {
    const auto bits = [](const Value* value) -> const Value* {
      const Op* op = value->definition;
      return op && op->is("bitcast") ? op->operands[0] : constant_of(value) ? value : nullptr;
    };
    const Op* greater = condition->definition;
    if (!greater || !greater->is("gt")) return false;
    const Value *left = bits(greater->operands[0]), *by = bits(greater->operands[1]);
    if (!left || !by || !left->definition || !left->definition->is("sub")) return false;
    const auto a = constant_of(by), b = constant_of(step);
    const bool same = by == step || (a && b && a->integer == b->integer);
    return same && left->definition->operands[0] == limit && left->definition->operands[1] == own;
  }

  // initial + number * step.
  Value* value_at(Builder& build, const Induction& each, Value* number) {
    const DType dtype = each.initial->type.dtype;
    Value* distance = build.astype(number, dtype);
    if (!is_one(each.step)) distance = build.emit("mul", {distance, each.step});
    return is_zero(each.initial) ? distance : build.emit("add", {each.initial, distance});
  }
  Value* value_after(const Induction& each, Value* number) {
    if (!each.limit) return value_at(build_, each, number);
    const Attributes bits{{"dtype", unsigned_of(each.initial->type.dtype)}};
    Value* before =
        value_at(build_, each, build_.emit("sub", {number, build_.constant(number->type.dtype, 1)}));
    Value* left = build_.emit("bitcast", {build_.emit("sub", {each.limit, before})}, bits);
    Value* goes_on = build_.emit("gt", {left, build_.emit("bitcast", {each.step}, bits)});
    Value* next = build_.emit("where", {goes_on, build_.emit("add", {before, each.step}), each.limit});
    Value* any = build_.emit("gt", {number, build_.constant(number->type.dtype, 0)});
    return build_.emit("where", {any, next, each.initial});
  }

  // Returns the value that makes the loop a `for` up to a limit: there is no other condition. null: there is
  // none.
  const Induction* range_of() const {
    if (!test_ || !test_->leading || comparisons_.size() != 1 || comparisons_[0].equal) return nullptr;
    const Op* condition = test_->branch->operands[0]->definition;
    const auto is_comparison = [&](const char* name) { return condition->is(name); };
    const auto names = {"lt", "le", "gt", "ge"};
    int64_t breaks = 0;
    walk(body_, [&](const Op& op) { breaks += op.is("break") && loop_around(op) == &loop_; });
    if (breaks != 1 || std::none_of(names.begin(), names.end(), is_comparison)) return nullptr;
    for (const Induction& each : inductions_) {
      const auto step = constant_of(each.step);
      const Op* counts = each.step->definition;
      const bool grows = each.limit || (step && step->integer > 0) || (counts && counts->is("num_blocks"));
      if (grows && is_signed(each.initial->type.dtype) && is_invariant(comparisons_[0].limit) &&
          comparisons_[0].value == body_.arguments[each.position])
        return &each;
    }
    return nullptr;
  }

  // Returns a bound of the iterations that pass the first test, which compares a value that grows; null:
  // none.
  Value* bound_of() {
    for (const Comparison& compared : comparisons_)
      for (const Induction& each : inductions_) {
        const auto step = constant_of(each.step);
        const bool grows = each.limit || (step && step->integer > 0);
        // In i64 no difference of narrower numbers overflows.
        const DType dtype = each.initial->type.dtype;
        const bool exact = is_signed(dtype) && (info(dtype).bits < 64 || (step && step->integer < most));
        if (compared.value != body_.arguments[each.position] || !is_invariant(compared.limit) || !grows ||
            !exact)
          continue;
        const auto wide = [&](Value* value) {
          value = build_.astype(value, DType::i64);
          if (info(dtype).bits < 64) return value;
          value = build_.emit("minimum", {value, build_.constant(DType::i64, int64_t{1} << 62)});
          return build_.emit("maximum", {value, build_.constant(DType::i64, -(int64_t{1} << 62))});
        };
        Value* distance = build_.emit("sub", {wide(outside(compared.limit)), wide(each.initial)});
        if (compared.equal) distance = build_.emit("add", {distance, build_.constant(DType::i64, 1)});
        Value* bound = build_.emit("cdiv", {distance, wide(each.step)});
        bound = build_.emit("minimum", {bound, build_.constant(DType::i64, most)});
        return build_.astype(bound, DType::i32);
      }
    return nullptr;
  }

  // range: its value is the index; null: the index is the number of the iteration.
  std::vector<Value*> insert_for(const Induction* range, Value* high, bool peels) {
    auto block = std::make_unique<Block>();
    Builder inside(function_, *block);
    inside.location = loop_.location;
    Value* low = range ? range->initial : build_.constant(DType::i32, 0);
    Value* step = range ? range->step : build_.constant(DType::i32, 1);
    Value* index = function_.add_argument(*block, low->type, loop_.location);
    std::vector<Value*> carried;
    for (const Value* argument : body_.arguments)
      carried.push_back(function_.add_argument(*block, argument->type, argument->location));
    std::vector<Value*> values = carried;
    Value* number = index;
    if (range && inductions_.size() > 1)
      number = inside.emit("floordiv", {inside.emit("sub", {index, low}), step});
    for (const Induction& each : inductions_)
      values[each.position] = &each == range ? index : value_at(inside, each, number);
    std::vector<Value*> next = carried;
    if (ends_of(body_) & continues || !peels) {
      const unsigned kinds = peels ? continues : continues | leaves;
      next = IterationPaths(inside, kinds, arguments(values), untaken_).copy(body_);
    }
    if (peels)
      for (const Induction& each : inductions_) next[each.position] = carried[each.position];
    inside.location = loop_.location;
    inside.create(primitive("yield"), next);
    return build_.insert_for({low, high, step}, loop_.operands, std::move(block)).results;
  }

  Function& function_;
  Builder build_;
  const Op& loop_;
  const Block& body_;
  const std::optional<Test> test_;
  const Block* untaken_ = nullptr;
  bool stays_below_ = false;  // iterations of the `for` are those that pass the first test
  std::vector<Comparison> comparisons_;
  std::vector<Induction> inductions_;
};

bool has_gradient(const Op& loop) {
  bool any = writes(loop);
  for (const Value* result : loop.results) any |= is_floating(result->type.dtype);
  return any && (ends_of(loop.region()) & leaves);
}

bool count_in(Function& function, Block& block) {
  bool changed = false;
  for (size_t i = 0; i < block.ops.size(); ++i) {
    Op& op = *block.ops[i];
    for (const auto& region : op.regions) changed |= count_in(function, *region);
    if (!op.is("loop") || !has_gradient(op)) continue;
    const std::vector<Value*> values = Counter(function, block, op, i).run();
    ValueMap replaced;
    for (size_t k = 0; k < values.size(); ++k) replaced[op.results[k]] = values[k];
    while (block.ops[i].get() != &op) ++i;
    block.ops.erase(block.ops.begin() + static_cast<ptrdiff_t>(i));
    replace_uses(function.body(), replaced);
    --i;
    changed = true;
  }
  return changed;
}

}  // namespace

bool count_loops(Function& function) { return count_in(function, function.body()); }

}  // namespace tile
