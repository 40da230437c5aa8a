// Follows a value m through a block, in which others become x + a m or x exp(a m), until a = 0.
#include "derive/invariance.h"

#include <cmath>
#include <numbers>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/walk.h"

namespace tile {
namespace {

// How an element depends on an element of m.
struct Effect {
  enum Kind { shift, scale } kind = shift;  // x + a m, or x exp(a m)
  double a = 0;
  std::vector<int> axes;  // of each axis of the value: that axis of m; -1: one element of m is along it
  bool operator==(const Effect&) const = default;
};

class Invariance {
 public:
  // m: a result of a block of the kernel. ignored: arrays whose contents may depend on it.
  Invariance(const Value* m, const std::unordered_set<const Value*>& ignored) : ignored_(ignored) {
    Effect own{Effect::shift, 1, {}};
    const Shape& shape = m->type.shape;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      own.axes.push_back(shape[axis] == 1 ? -1 : static_cast<int>(axis));
    effects_[m] = own;
  }
  // Returns true if nothing after m in its block depends on m.
  bool holds(const Op& definition) {
    bool after = false;
    for (const auto& op : definition.parent->ops) {
      if (after && !follow(*op)) return false;
      after |= op.get() == &definition;
    }
    return true;
  }

 private:
  const Effect* of(const Value* value) const {
    const auto found = effects_.find(value);
    return found == effects_.end() ? nullptr : &found->second;
  }

  // Returns false if the op's effects are not of this kind.
  bool follow(const Op& op) {
    bool depends = false;
    for (const Value* operand : op.operands) depends |= of(operand) != nullptr;
    for (const auto& region : op.regions)
      walk(*region, [&](const Op& inner) {
        for (const Value* operand : inner.operands) depends |= of(operand) != nullptr;
      });
    if (!depends || op.is("detach")) return true;
    if (op.traits().writes && ignored_.contains(root_array(op.operands[0]))) return true;
    if (!op.regions.empty() || op.results.size() != 1) return false;
    const std::optional<Effect> effect = effect_of(op);
    if (!effect) return false;
    if (effect->a != 0) effects_[op.results[0]] = *effect;
    return true;
  }

  std::optional<Effect> effect_of(const Op& op) const {
    if (op.operands.size() == 1) return effect_of_one(op, *of(op.operands[0]));
    if (op.operands.size() == 2) return effect_of_two(op);
    if (op.is("fma")) return sum(product(op.operands[0], op.operands[1]), part(op.operands[2]));
    if (op.is("where") && !of(op.operands[0])) return either(op.operands[1], op.operands[2]);
    return std::nullopt;
  }

  static std::optional<Effect> effect_of_one(const Op& op, Effect effect) {
    const bool shifts = effect.kind == Effect::shift;
    if (op.is("astype")) return is_floating(op.result()->type.dtype) ? std::optional(effect) : std::nullopt;
    if (op.is("neg")) return effect.a *= shifts ? -1 : 1, effect;
    if (op.is("exp") || op.is("exp2")) {
      if (!shifts) return std::nullopt;
      return Effect{Effect::scale, op.is("exp") ? effect.a : effect.a * std::numbers::ln2, effect.axes};
    }
    if (op.is("log") || op.is("log2")) {
      if (shifts) return std::nullopt;
      return Effect{Effect::shift, op.is("log") ? effect.a : effect.a / std::numbers::ln2, effect.axes};
    }
    if (op.is("sqrt") || op.is("rsqrt")) {
      if (shifts) return std::nullopt;
      return effect.a *= op.is("sqrt") ? 0.5 : -0.5, effect;
    }
    if (op.is("broadcast")) {
      if (effect.axes.empty()) effect.axes.assign(op.result()->type.shape.size(), -1);
      return effect;
    }
    if (op.is("permute")) {
      std::vector<int> axes;
      for (int64_t axis : op.integers("axes")) axes.push_back(effect.axes[static_cast<size_t>(axis)]);
      return effect.axes = axes, effect;
    }
    if (op.is("reshape")) return reshaped(op, effect);
    const bool extreme = op.is("reduce_max") || op.is("reduce_min");
    if (!(op.is("reduce_sum") && !shifts) && !extreme) return std::nullopt;
    std::vector<int> axes = effect.axes;
    const auto& reduced = op.integers("axes");
    for (size_t i = reduced.size(); i-- > 0;) {
      if (axes[static_cast<size_t>(reduced[i])] >= 0) return std::nullopt;
      axes.erase(axes.begin() + reduced[i]);
    }
    return effect.axes = axes, effect;
  }
  // Only axes of extent 1 may come and go.
  static std::optional<Effect> reshaped(const Op& op, Effect effect) {
    const Shape &from = op.type(0).shape, &to = op.result()->type.shape;
    std::vector<int> axes;
    size_t at = 0;
    for (const int64_t extent : to) {
      if (extent == 1) {
        axes.push_back(-1);
        continue;
      }
      while (at < from.size() && from[at] == 1) ++at;
      if (at == from.size() || from[at] != extent) return std::nullopt;
      axes.push_back(effect.axes[at++]);
    }
    return effect.axes = axes, effect;
  }

  std::optional<Effect> effect_of_two(const Op& op) const {
    const Value *x = op.operands[0], *y = op.operands[1];
    if (op.is("add")) return sum(part(x), part(y));
    if (op.is("sub")) {
      Part second = part(y);
      if (second.effect && second.effect->kind == Effect::shift) second.effect->a *= -1;
      return sum(part(x), second);
    }
    if (op.is("mul")) return product(x, y).effect;
    if (op.is("div")) return quotient(x, y);
    return std::nullopt;
  }

  // An operand; failed: it depends on m in another way.
  struct Part {
    std::optional<Effect> effect;
    bool failed = false;
  };
  Part part(const Value* value) const {
    const Effect* effect = of(value);
    return {effect ? std::optional(*effect) : std::nullopt};
  }
  // Returns the effect of a sum; none if it fails.
  static std::optional<Effect> sum(const Part& x, const Part& y) {
    if (x.failed || y.failed) return std::nullopt;
    if (!x.effect || !y.effect) {
      const Effect& one = x.effect ? *x.effect : *y.effect;
      return one.kind == Effect::shift ? std::optional(one) : std::nullopt;
    }
    if (x.effect->kind != y.effect->kind || x.effect->axes != y.effect->axes) return std::nullopt;
    Effect both = *x.effect;
    if (both.kind == Effect::scale) return both == *y.effect ? std::optional(both) : std::nullopt;
    return both.a += y.effect->a, both;
  }
  Part product(const Value* x, const Value* y) const {
    const Effect *left = of(x), *right = of(y);
    if (!left && !right) return {};
    if (left && right) {
      if (left->kind != Effect::scale || right->kind != Effect::scale || left->axes != right->axes)
        return {std::nullopt, true};
      return {Effect{Effect::scale, left->a + right->a, left->axes}};
    }
    const Effect& one = left ? *left : *right;
    if (one.kind == Effect::scale) return {one};
    const std::optional<Constant> factor = constant_of(left ? y : x);
    if (!factor) return {std::nullopt, true};
    return {Effect{Effect::shift, one.a * factor->as_double(), one.axes}};
  }
  std::optional<Effect> quotient(const Value* x, const Value* y) const {
    const Effect *left = of(x), *right = of(y);
    if (right && right->kind == Effect::shift) return std::nullopt;
    if (left && left->kind == Effect::shift) {
      const std::optional<Constant> divisor = constant_of(y);
      if (right || !divisor) return std::nullopt;
      return Effect{Effect::shift, left->a / divisor->as_double(), left->axes};
    }
    if (left && right && left->axes != right->axes) return std::nullopt;
    return Effect{Effect::scale, (left ? left->a : 0) - (right ? right->a : 0), (left ? left : right)->axes};
  }
  // One of two values, of which one may be the padding that no shift or no scale changes.
  std::optional<Effect> either(const Value* x, const Value* y) const {
    const Effect *left = of(x), *right = of(y);
    if (left && right) return *left == *right ? std::optional(*left) : std::nullopt;
    const Effect& one = left ? *left : *right;
    const std::optional<Constant> other = constant_of(left ? y : x);
    if (!other) return std::nullopt;
    const double value = other->as_double();
    return (one.kind == Effect::shift ? std::isinf(value) : value == 0) ? std::optional(one) : std::nullopt;
  }

  std::unordered_map<const Value*, Effect> effects_;
  const std::unordered_set<const Value*>& ignored_;
};

}  // namespace

std::unordered_set<const Value*> invariant_extremes(const Function& kernel,
                                                    const std::vector<size_t>& saved) {
  std::unordered_set<const Value*> found, ignored;
  for (const size_t each : saved) ignored.insert(kernel.body().arguments.at(each));
  walk(kernel.body(), [&](const Op& op) {
    if (!op.is("reduce_max") && !op.is("reduce_min")) return;
    if (is_floating(op.result()->type.dtype) && Invariance(op.result(), ignored).holds(op))
      found.insert(op.result());
  });
  return found;
}

}  // namespace tile
