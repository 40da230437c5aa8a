// Reverse-mode differentiation of a trace's operations: each passes gradients from its result to its
// operands.
#include "prims/derivatives.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "prims/elementwise.h"
#include "prims/tangents.h"

namespace tile {
namespace {

using Parts = std::vector<std::optional<Tile>>;
// Computes the operands' gradients from the result's gradient, the result and the operands.
using Rule = Parts (*)(const Tile& g, const Tile& r, const std::vector<Tile>& operands);

constexpr std::nullopt_t none = std::nullopt;

// Operands that a row does not have are replaced by the first one, which the row does not read.
template <class F>
Parts apply(const F& row, const Tile& g, const Tile& r, const std::vector<Tile>& operands) {
  const auto at = [&](size_t i) -> const Tile& { return operands[i < operands.size() ? i : 0]; };
  return row(g, r, at(0), at(1), at(2));
}

Parts astype_rule(const Tile& g, const Tile&, const std::vector<Tile>& operands) {
  return {g.astype(operands[0].dtype())};
}
Parts where_rule(const Tile& g, const Tile&, const std::vector<Tile>& operands) {
  return {none, where(operands[0], g, 0), where(operands[0], 0, g)};
}
// There is no rule for broadcast: only constants are broadcast, and they have no gradient.
const std::map<std::string_view, Rule>& rules() {
  static const std::map<std::string_view, Rule> table{
#define DERIVATIVE(NAME, ...)                                                            \
  {#NAME, [](const Tile& given, const Tile& result, const std::vector<Tile>& operands) { \
     return apply([]([[maybe_unused]] const Tile& g, [[maybe_unused]] const Tile& r,     \
                     [[maybe_unused]] const Tile& x, [[maybe_unused]] const Tile& y,     \
                     [[maybe_unused]] const Tile& z) -> Parts { return {__VA_ARGS__}; }, \
                  given, result, operands);                                              \
   }},
#define FINITE_DERIVATIVE DERIVATIVE
#define SINGULAR_DERIVATIVE DERIVATIVE
#include "prims/derivatives.def"
#undef SINGULAR_DERIVATIVE
#undef FINITE_DERIVATIVE
#undef DERIVATIVE
      {"astype", astype_rule},
      {"where", where_rule},
  };
  return table;
}

bool is_float(const Value* value) { return is_floating(value->type.dtype); }

class Reverse {
 public:
  Reverse(const std::vector<Tile>& inputs, Location location) : location_(location) {
    for (const Tile& input : inputs) inputs_.insert(input.value(location));
  }
  void add(Value* value, const Tile& part) {
    const auto [found, made] = parts_.try_emplace(value, part.value(location_));
    if (!made) found->second = (Tile(found->second) + part).value(location_);
  }
  // Returns true if the value depends on an input. Such values are listed after the values that they depend
  // on.
  bool visit(Value* value) {
    if (inputs_.contains(value)) return true;
    if (const auto known = active_.find(value); known != active_.end()) return known->second;
    bool active = false;
    if (const Op* op = value->definition)
      for (Value* operand : op->operands) active |= visit(operand) && is_float(operand);
    active &= is_float(value);
    if (active) order_.push_back(value);
    return active_[value] = active;
  }
  void run() {
    for (size_t i = order_.size(); i-- > 0;)
      if (const auto part = parts_.find(order_[i]); part != parts_.end()) back(order_[i], Tile(part->second));
  }
  std::optional<Tile> part(const Tile& input) const {
    const auto found = parts_.find(input.value(location_));
    return found == parts_.end() ? std::nullopt : std::optional(Tile(found->second));
  }

 private:
  void back(Value* value, const Tile& g) {
    const Op& op = *value->definition;
    const auto rule = rules().find(op.name());
    if (rule == rules().end())
      fail(op.location, ErrorKind::unsupported, op.name(),
           ": has no derivative; only elementwise operations of floats have one");
    std::vector<Tile> operands;
    for (Value* operand : op.operands) operands.emplace_back(operand);
    const Parts parts = rule->second(g, Tile(value), operands);
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (parts[i] && visit(op.operands[i]) && is_float(op.operands[i])) add(op.operands[i], *parts[i]);
  }

  Location location_;
  std::unordered_set<const Value*> inputs_;
  std::unordered_map<const Value*, bool> active_;
  std::vector<Value*> order_;
  std::unordered_map<Value*, Value*> parts_;
};

}  // namespace

std::vector<std::optional<Tile>> derivatives(const std::vector<Tile>& results, const std::vector<Tile>& seeds,
                                             const std::vector<Tile>& inputs, Location location) {
  Reverse reverse(inputs, location);
  for (size_t k = 0; k < results.size(); ++k)
    if (Value* value = results[k].value(location); reverse.visit(value) && is_float(value))
      reverse.add(value, seeds[k]);
  reverse.run();
  std::vector<std::optional<Tile>> parts;
  for (const Tile& input : inputs) parts.push_back(reverse.part(input));
  return parts;
}

// The rows are linear in the gradient: with an operand's tangent in its place, they give the operand's part
// of the result's tangent.
std::vector<Value*> elementwise_tangent(Builder&, const Op& op, Tangents tangents) {
  if (!is_float(op.results[0])) return {nullptr};
  const auto rule = rules().find(op.name());
  if (rule == rules().end()) fail_tangent(op);
  const Tile result(op.results[0]);
  std::vector<Tile> operands;
  for (Value* operand : op.operands) operands.emplace_back(operand);
  Value* sum = nullptr;
  for (size_t i = 0; i < tangents.size(); ++i) {
    if (!tangents[i]) continue;
    const Tile tangent(tangents[i]);
    std::optional<Tile> part = rule->second(tangent, result, operands)[i];
    // In padding the tangent is 0, and 0 by an infinite derivative would be NaN, which a sum would spread.
    if (part && is_singular(op.name())) part = where(tangent == 0, 0, *part);
    if (part) sum = sum ? (Tile(sum) + *part).value() : part->value();
  }
  return {sum};
}

bool stays_finite(std::string_view primitive) {
  static const std::unordered_set<std::string_view> names{
#define DERIVATIVE(...)
#define SINGULAR_DERIVATIVE(...)
#define FINITE_DERIVATIVE(NAME, ...) #NAME,
#include "prims/derivatives.def"
#undef FINITE_DERIVATIVE
#undef SINGULAR_DERIVATIVE
#undef DERIVATIVE
      "where"};
  return names.contains(primitive);
}
bool is_singular(std::string_view primitive) {
  static const std::unordered_set<std::string_view> names{
#define DERIVATIVE(...)
#define FINITE_DERIVATIVE(...)
#define SINGULAR_DERIVATIVE(NAME, ...) #NAME,
#include "prims/derivatives.def"
#undef SINGULAR_DERIVATIVE
#undef FINITE_DERIVATIVE
#undef DERIVATIVE
  };
  return names.contains(primitive);
}

std::vector<std::string_view> differentiable_primitives() {
  std::vector<std::string_view> names;
  for (const auto& [name, rule] : rules()) names.push_back(name);
  return names;
}

}  // namespace tile
