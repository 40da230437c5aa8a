// Comparisons that value ranges decide become constants, exact divisions are simplified, and loads and stores
// that cannot cross an edge get in_bounds = 1. Slices that cannot begin before their array get starts_inside
// = 1. Loops that never run are removed.
#include "passes/bounds.h"
#include "passes/comparisons.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tile {
namespace {

std::optional<bool> decide(const Op& op, const Comparison& comparison, Bounds& bounds) {
  std::optional<Linear> x = bounds.linear(op.operands[0]), y = bounds.linear(op.operands[1]);
  if (!x || !y) {
    if (!is_integer(op.type(0).dtype) || info(op.type(0).dtype).bits > 32) return std::nullopt;
    Range a = bounds.facts().range(op.operands[0]), b = bounds.facts().range(op.operands[1]);
    x = Linear{{}, a.low, a.high};
    y = Linear{{}, b.low, b.high};
  }
  for (bool outcome : {true, false})
    for (const Linear& form : comparison.forms(*x, *y, outcome))
      if (bounds.nonnegative(form)) return outcome;
  return std::nullopt;
}

bool known_divisor(const Op& op, Bounds& bounds) {
  std::optional<Constant> by = constant_of(op.operands[1]);
  return by && is_signed(by->dtype) && by->integer > 0 &&
         bounds.facts().multiple_of(op.operands[0], by->integer);
}

// Returns x if x never exceeds y (minimum) or is never below it (maximum).
Value* bounding(const Op& op, bool least, Bounds& bounds) {
  for (size_t i : {0, 1}) {
    std::optional<Linear> gap =
        bounds.difference(op.operands[least ? 1 - i : i], op.operands[least ? i : 1 - i]);
    if (gap && bounds.nonnegative(*gap)) return op.operands[i];
  }
  return nullptr;
}

class Masks {
 public:
  explicit Masks(Function& function) : bounds_(function), rewrite_(function) {
    rewrite_.run(function.body(), [&](Op& op) { return visit(op); });
  }
  bool changed() const { return rewrite_.changed; }

 private:
  Keep visit(Op& op) {
    if (const Comparison* comparison = find_comparison(op.name())) return compare(op, *comparison);
    if (op.is("cdiv") && known_divisor(op, bounds_))
      return become(op, rewrite_.build.emit("floordiv", {op.operands[0], op.operands[1]}));
    if (op.is("mod") && known_divisor(op, bounds_))
      return become(op,
                    rewrite_.build.splat(Constant::of(op.result()->type.dtype, 0), op.result()->type.shape));
    if (op.is("minimum") || op.is("maximum")) {
      Value* value = bounding(op, op.is("minimum"), bounds_);
      return value ? become(op, value) : Keep::yes;
    }
    if (op.is("for")) return iterations(op);
    if (op.is("slice")) begin(op);
    if (const Access* access = find_access(op.name())) bound(op, *access);
    return Keep::yes;
  }

  Keep compare(Op& op, const Comparison& comparison) {
    std::optional<bool> outcome = decide(op, comparison, bounds_);
    if (!outcome) return Keep::yes;
    return become(op, rewrite_.build.splat(Constant::of(DType::boolean, int{*outcome}), op.type(0).shape));
  }

  // A loop without iterations yields its initial values.
  Keep iterations(Op& op) {
    std::optional<Linear> gap = bounds_.difference(op.operands[0], op.operands[1]);
    if (!gap || !bounds_.nonnegative(*gap)) return Keep::yes;
    for (size_t i = 0; i < op.results.size(); ++i) rewrite_.replace(op.results[i], op.operands[3 + i]);
    return Keep::no;
  }

  void bound(Op& op, const Access& access) {
    if (op.has("in_bounds")) return;
    for (const std::optional<Linear>& form : access.forms(op, bounds_))
      if (!form || !bounds_.nonnegative(*form)) return;
    op.attributes.set("in_bounds", int64_t{1});
    rewrite_.changed = true;
  }

  void begin(Op& op) {
    if (op.has("starts_inside")) return;
    const std::optional<Linear> start = bounds_.linear(op.operands[1]);
    if (!start || !bounds_.nonnegative(*start)) return;
    op.attributes.set("starts_inside", int64_t{1});
    rewrite_.changed = true;
  }

  Keep become(Op& op, Value* value) {
    rewrite_.replace(op.result(), value);
    return Keep::no;
  }

  Bounds bounds_;
  Rewriter rewrite_;
};

}  // namespace

bool simplify_masks(Function& function) { return Masks(function).changed(); }

}  // namespace tile
