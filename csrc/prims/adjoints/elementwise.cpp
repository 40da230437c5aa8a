// Reverse mode of elementwise primitives and casts.
#include <algorithm>
#include <map>
#include <optional>

#include "prims/adjoints.h"
#include "prims/built_tile.h"
#include "prims/derivatives.h"

namespace tile {
namespace built {
namespace {

using Parts = std::vector<std::optional<BuiltTile>>;
using Rule = Parts (*)(const BuiltTile& g, const BuiltTile& r, const BuiltTile& x, const BuiltTile& y,
                       const BuiltTile& z);
constexpr std::nullopt_t none = std::nullopt;

const std::map<std::string_view, Rule>& rules() {
  static const std::map<std::string_view, Rule> table{
#define DERIVATIVE(NAME, ...)                                                   \
  {#NAME,                                                                       \
   []([[maybe_unused]] const BuiltTile& g, [[maybe_unused]] const BuiltTile& r, \
      [[maybe_unused]] const BuiltTile& x, [[maybe_unused]] const BuiltTile& y, \
      [[maybe_unused]] const BuiltTile& z) -> Parts { return {__VA_ARGS__}; }},
#define FINITE_DERIVATIVE DERIVATIVE
#define SINGULAR_DERIVATIVE DERIVATIVE
#include "prims/derivatives.def"
#undef SINGULAR_DERIVATIVE
#undef FINITE_DERIVATIVE
#undef DERIVATIVE
  };
  return table;
}

// Returns true if an expression of `known` values reads one of those in `wanted`.
bool reads(const Value* value, const std::vector<const Value*>& wanted,
           const std::vector<const Value*>& known) {
  const auto has = [&](const auto& list) { return std::find(list.begin(), list.end(), value) != list.end(); };
  if (has(wanted)) return true;
  if (has(known) || !value->definition) return false;
  const auto& operands = value->definition->operands;
  return std::any_of(operands.begin(), operands.end(),
                     [&](const Value* each) { return reads(each, wanted, known); });
}

}  // namespace
}  // namespace built

void adjoint_of_elementwise(Adjoints& adjoints) {
  Value* g = adjoints.of();
  if (!g) return;
  const Op& op = adjoints.op;
  const auto rule = built::rules().find(op.name());
  if (rule == built::rules().end())
    fail_without_derivative(op, "compute the gradient by hand, or leave it out of what is differentiated");
  const auto wide = [&](Value* value) {
    return built::BuiltTile(adjoints.build, adjoints.cast(value, g->type.dtype));
  };
  std::vector<built::BuiltTile> operands;
  std::vector<const Value*> known{g}, unbounded;
  const auto note = [&](Value* value, const Value* as) {
    known.push_back(as);
    if (!adjoints.is_finite_in_padding(value)) unbounded.push_back(as);
  };
  for (Value* operand : op.operands) {
    operands.push_back(wide(operand));
    note(operand, operands.back().value());
  }
  const built::BuiltTile result = wide(op.result());
  note(op.result(), result.value());
  // Operands that a row does not have are replaced by the first one, which the row does not read.
  const auto at = [&](size_t i) -> const built::BuiltTile& { return operands[i < operands.size() ? i : 0]; };
  const built::Parts parts = rule->second({adjoints.build, g}, result, at(0), at(1), at(2));
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (!parts[i] || !adjoints.wants(i)) continue;
    Value* part = parts[i]->value();
    const bool passes = part == g || (part->definition->is("neg") && part->definition->operands[0] == g);
    if (!passes && (is_singular(op.name()) || built::reads(part, unbounded, known)))
      part = adjoints.zero_where_zero(g, part);
    adjoints.add(i, part);
  }
}

void adjoint_of_where(Adjoints& adjoints) {
  Value* g = adjoints.of();
  if (!g) return;
  Value *condition = adjoints.op.operands[0], *zeros = adjoints.zeros(g->type);
  if (adjoints.wants(1)) adjoints.add(1, adjoints.emit("where", {condition, g, zeros}));
  if (adjoints.wants(2)) adjoints.add(2, adjoints.emit("where", {condition, zeros, g}));
}

// Rounding is differentiated as if it were exact.
void adjoint_of_cast(Adjoints& adjoints) {
  if (Value* g = adjoints.of()) adjoints.add(0, g);
}

void no_adjoint(Adjoints&) {}

void adjoint_of_bits(Adjoints& adjoints) {
  fail_without_derivative(adjoints.op, "bits of a number do not change continuously; use arithmetic");
}

}  // namespace tile
