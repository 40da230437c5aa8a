// Finds values that are not known to be finite: it begins with none, and goes on until no other follows.
#include "derive/padding.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ir/build.h"
#include "prims/derivatives.h"

namespace tile {
namespace {

// Primitives whose results are finite if their operands are, beside elementwise ones.
constexpr std::array finite_primitives{"broadcast",  "reshape",    "permute",     "cat",
                                       "extract",    "insert",     "mma",         "reduce_sum",
                                       "reduce_max", "reduce_min", "reduce_prod", "detach"};

bool is_float(const Value* value) { return !value->type.is_array() && is_floating(value->type.dtype); }
bool is_nonzero_constant(const Value* value) {
  while (value->definition && (value->definition->is("astype") || value->definition->is("broadcast")))
    value = value->definition->operands[0];
  if (value->definition && value->definition->is("dim")) return true;  // an extent, where there are elements
  const auto constant = constant_of(value);
  return constant && constant->as_double() != 0 && std::isfinite(constant->as_double());
}
// Returns true for the difference of a tile and its maximum, which is at most 0.
bool is_at_most_zero(const Value* value) {
  const Op* op = value->definition;
  if (!op || !op->is("sub")) return false;
  const Value* most = op->operands[1];
  const auto is = [&](std::string_view name) { return most->definition && most->definition->is(name); };
  while (is("broadcast") || is("reshape") || is("detach")) most = most->definition->operands[0];
  return is("reduce_max") && most->definition->operands[0] == op->operands[0];
}

}  // namespace

FinitePadding::FinitePadding(const Function& kernel) {
  do {
    changed_ = false;
    visit(kernel.body());
  } while (changed_);
}

void FinitePadding::mark(const Value* value) {
  if (is_float(value)) changed_ |= others_.insert(value).second;
}

bool FinitePadding::has_finite_operands(const Op& op, size_t first) const {
  return std::all_of(op.operands.begin() + static_cast<ptrdiff_t>(first), op.operands.end(),
                     [&](const Value* each) { return is_finite(each); });
}

bool FinitePadding::is_finite_op(const Op& op) const {
  if (op.is("constant")) return std::isfinite(constant_of(op.result())->as_double());
  if (op.has("pad")) return std::isfinite(op.number("pad"));  // loads and gathers
  if (op.is("div")) return is_nonzero_constant(op.operands[1]) && is_finite(op.operands[0]);
  // Others, as exp, overflow for large numbers.
  const bool bounded = op.is("exp") && is_at_most_zero(op.operands[0]);
  const auto listed = std::find(finite_primitives.begin(), finite_primitives.end(), op.name());
  const bool known =
      bounded || op.is("astype") || stays_finite(op.name()) || listed != finite_primitives.end();
  return known && has_finite_operands(op);
}

void FinitePadding::visit(const Block& block) {
  for (const auto& op : block.ops) {
    for (const auto& region : op->regions) visit(*region);
    if (op->is("for")) {
      const Block& body = op->region();
      const auto& yields = body.terminator()->operands;
      const size_t carried = op->results.size();
      for (size_t k = 0; k < carried; ++k) {
        const Value* initial = op->operands[op->operands.size() - carried + k];
        if (is_finite(initial) && is_finite(yields[k])) continue;
        mark(op->results[k]);
        mark(body.arguments[body.arguments.size() - carried + k]);
      }
    } else if (op->is("if")) {
      for (const auto& region : op->regions)
        for (size_t k = 0; k < op->results.size() && region->terminator()->is("yield"); ++k)
          if (!is_finite(region->terminator()->operands[k])) mark(op->results[k]);
    } else if (!op->regions.empty() || !is_finite_op(*op)) {
      for (const Value* result : op->results) mark(result);
      for (const auto& region : op->regions)
        for (const Value* argument : region->arguments) mark(argument);
    }
  }
}

}  // namespace tile
