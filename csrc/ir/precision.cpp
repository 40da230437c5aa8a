// Propagates requirements backward from stores until nothing changes.
#include "ir/precision.h"

#include <algorithm>
#include <vector>

#include "ir/walk.h"

namespace tile {
namespace {

bool floating(const Value* value) { return !value->type.is_array() && is_floating(value->type.dtype); }
bool of_16_bits(const Type& type) { return is_floating(type.dtype) && info(type.dtype).bytes <= 2; }
// Elementwise ops whose result changes little with a small error of the operand; other ops have
// discontinuities.
constexpr std::string_view smooth[] = {
    "abs",     "add",     "astype", "div", "erf",   "exp",     "exp2", "fma",  "log", "log1p", "log2",
    "maximum", "minimum", "mul",    "neg", "rsqrt", "sigmoid", "silu", "sqrt", "sub", "tanh",  "where"};
bool passes_on(const Op& op) {
  return !op.traits().elementwise ||
         std::find(std::begin(smooth), std::end(smooth), op.name()) != std::end(smooth);
}
bool control(const Op& op) { return op.is("for") || op.is("loop") || op.is("if"); }

}  // namespace

// Returns true if an error of the operand would be visible in the op's results.
bool Precision::asks_exact(const Op& op, size_t operand) const {
  const auto any_exact = [&](const std::vector<Value*>& values) {
    return std::any_of(values.begin(), values.end(),
                       [&](const Value* value) { return !floating(value) || exact(value); });
  };
  if (op.is("store")) return true;
  if (control(op)) {
    const size_t first = op.is("for") ? 3 : op.is("if") ? 1 : 0;
    if (operand < first || op.is("if")) return true;
    const size_t i = operand - first;
    return exact(op.results[i]) || exact(op.region().arguments[i + (op.is("for") ? 1 : 0)]);
  }
  if (op.traits().terminator) {
    const Op* around = op.parent->parent;
    if (!around || !around->is("for")) return true;
    return exact(around->results[operand]) || exact(around->region().arguments[operand + 1]);
  }
  if (!op.traits().pure() || !op.regions.empty() || op.results.empty() || !passes_on(op)) return true;
  if (op.is("astype") && of_16_bits(op.results[0]->type)) return false;
  return any_exact(op.results);
}

Precision::Precision(const Function& function) {
  std::vector<const Op*> ops;
  walk(function.body(), [&](const Op& op) { ops.push_back(&op); });
  for (size_t before = ~size_t{0}; before != exact_.size();) {
    before = exact_.size();
    for (size_t i = ops.size(); i-- > 0;)
      for (size_t k = 0; k < ops[i]->operands.size(); ++k)
        if (floating(ops[i]->operands[k]) && asks_exact(*ops[i], k)) exact_.insert(ops[i]->operands[k]);
  }
}

bool Precision::approximate(const Value* value) const {
  if (of_16_bits(value->type)) return true;
  return value->type.dtype == DType::f32 && !exact(value);
}

}  // namespace tile
