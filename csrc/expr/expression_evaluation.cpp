// Computes parsed texts and their derivatives in a trace, and finds what they need.
#include <cmath>
#include <unordered_set>

#include "dsl/tracer.h"
#include "expr/expression_text.h"
#include "prims/derivatives.h"

namespace tile {
namespace {

// Returns for each of `inputs` whether one of `results` is computed from it.
std::vector<bool> reached(const std::vector<std::optional<Tile>>& results, const std::vector<Tile>& inputs) {
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> left;
  for (const std::optional<Tile>& result : results)
    if (result) left.push_back(result->value());
  while (!left.empty()) {
    const Value* value = left.back();
    left.pop_back();
    if (!seen.insert(value).second || !value->definition) continue;
    left.insert(left.end(), value->definition->operands.begin(), value->definition->operands.end());
  }
  std::vector<bool> found;
  for (const Tile& input : inputs) found.push_back(seen.contains(input.value()));
  return found;
}

}  // namespace

void ExpressionText::mark_needed() {
  used_.resize(names_.size());
  needed_.resize(nodes_.size());
  for (const size_t result : results_) needed_[result] = true;
  for (size_t node = nodes_.size(); node-- > 0;) {
    if (!needed_[node]) continue;
    if (nodes_[node].name >= 0) used_[static_cast<size_t>(nodes_[node].name)] = true;
    for (const size_t operand : nodes_[node].operands) needed_[operand] = true;
  }
}

void ExpressionText::differentiate() {
  Tracer tracer("derivatives of a text");
  const auto parameter = [&](DType dtype = DType::f32) {
    return Tile(tracer.function().add_argument(tracer.function().body(), Type::tile(dtype), {}));
  };
  const auto dtype_of = [&](size_t i) { return i < kinds_.dtypes.size() ? kinds_.dtypes[i] : DType::f32; };
  std::vector<Tile> inputs;
  for (size_t i = 0; i < names_.size(); ++i) inputs.push_back(parameter(dtype_of(i)));
  const Tile seed = parameter();
  try {
    const Tile result = (*this)(
        DType::f32, [&](size_t name) { return inputs[name]; },
        [&](size_t name, const std::vector<Tile>&) { return parameter(dtype_of(name)); });
    const std::vector<std::optional<Tile>> found = derivatives({result}, {seed}, inputs);
    has_derivatives_ = true;
    read_ = reached(found, inputs);
    for (size_t i = 0; i < found.size(); ++i)
      for (size_t k = i; k-- > 0;)
        if (found[i] && found[k] && found[i]->value() == found[k]->value()) alike_[i] = alike_[k];
  } catch (const Error&) {  // a function without a derivative, which the gradient refuses
  }
}

bool ExpressionText::stays_finite() const {
  // Conditions and integers are finite whatever they are computed from, and no derivative reaches that.
  std::vector<bool> reached(nodes_.size());
  for (const size_t result : results_) reached[result] = true;
  for (size_t i = nodes_.size(); i-- > 0;) {
    const Node& node = nodes_[i];
    if (!reached[i] || node.dtype == DType::boolean || is_integer(node.dtype)) continue;
    for (const size_t operand : node.operands) reached[operand] = true;
    if (!node.primitive) {
      if (node.name < 0 && !std::isfinite(node.number)) return false;
      continue;
    }
    if (tile::stays_finite(node.primitive->name)) continue;
    if (node.primitive->name != std::string_view("div")) return false;
    const Node& by = nodes_[node.operands[1]];
    if (!by.is_number() || by.number == 0) return false;
  }
  return true;
}

std::vector<Tile> ExpressionText::all(DType dtype, const ValueOfName& value,
                                      const ElementOfName& element) const {
  const Location here = Location::current();
  std::vector<Value*> made(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!needed_[i]) continue;
    std::vector<Value*> operands;
    for (const size_t operand : node.operands) operands.push_back(made[operand]);
    if (node.primitive) {
      broadcast_together(node.primitive->name.data(), operands, here);
      made[i] = emit(*node.primitive, std::move(operands), {}, here);
    } else if (node.rounded) {
      made[i] = Tile(operands[0]).astype(*node.rounded, here).astype(dtype, here).value();
    } else if (node.converted) {
      made[i] = Tile(operands[0]).astype(is_integer(node.dtype) ? node.dtype : dtype, here).value();
    } else if (node.name >= 0) {
      const auto name = static_cast<size_t>(node.name);
      made[i] =
          operands.empty() ? value(name).value() : element(name, {operands.begin(), operands.end()}).value();
    } else {
      made[i] = is_integer(node.dtype)
                    ? Operand(static_cast<int64_t>(node.number), here).as(node.dtype, "constant")
                    : Operand(node.number, here).as(dtype, "constant");
    }
  }
  std::vector<Tile> results;
  for (const size_t result : results_) results.emplace_back(made[result]);
  return results;
}

}  // namespace tile
