// Emits flags, padding, starts, masks and indices of memory accesses.
#include "cuda/access_text.h"

#include <algorithm>
#include <numeric>

#include "cuda/literal.h"
#include "cuda/lowering_rule.h"
#include "ir/atomic.h"

namespace tile::cuda {

std::string flags_text(const Op& op, const ArrayFacts& facts) {
  std::string text;
  auto add = [&](bool holds, const char* flag) {
    if (holds) text += str(text.empty() ? "" : " | ", flag);
  };
  add(facts.constant, "constant_array");
  add(op.has("in_bounds"), "in_bounds");
  add(facts.whole_vectors, "whole_vectors");
  return text.empty() ? "plain" : text;
}

std::string pad_text(const Op& op) {
  return literal(Constant::of(op.results[0]->type.dtype, *op.attributes.find("pad")));
}

int access_width(const ArrayFacts& facts, const Type& type, const Shape& steps, const Layout& layout) {
  if (facts.unit < 0) return 1;
  return std::gcd(vector_width(facts, type.dtype, type.shape, steps), layout.vector_along(facts.unit));
}

std::string axis_start_text(Emitter& emitter, const ArrayFacts& facts, const Value* index, int64_t step) {
  // A tile that begins this far out is outside the array whatever its step.
  constexpr int64_t far = int64_t{1} << 29;
  const std::string name = emitter.name(index);
  return facts.small ? str("tile_start<", std::min(step, far), ">(", name, ")")
                     : str("i64(", name, ")", step == 1 ? "" : str(" * ", step));
}
std::string start_text(Emitter& emitter, const Op& op, size_t first) {
  const ArrayFacts facts = emitter.facts(op.operands[0]);
  std::vector<std::string> starts;
  for (size_t i = first; i < op.operands.size(); ++i)
    starts.push_back(axis_start_text(emitter, facts, op.operands[i], op.integers("steps")[i - first]));
  return "{" + join(starts) + "}";
}

std::string group_text(Emitter& emitter, const Layout& layout) {
  return emitter.plan().in_each_group(layout) ? "if (group_of_block() == 0) " : "";
}

std::string mask_text(Emitter& emitter, const Op& op, size_t operand, const Layout& layout) {
  if (operand >= op.operands.size()) return "Always()";
  return str("Masked<", emitter.layout(layout), ">{", emitter.in_layout(op, op.operands[operand], layout),
             "}");
}
ElementsText elements_text(Emitter& emitter, const Op& op, size_t first, const Layout& layout) {
  ElementsText text;
  const size_t end = first + index_count(op);
  for (size_t i = first; i < end; ++i) text.index += ", " + emitter.in_layout(op, op.operands[i], layout);
  text.mask = mask_text(emitter, op, end, layout);
  return text;
}
std::optional<Layout> relate_elements(const Op& op, const Value* from, const Value* to,
                                      const Layout& layout) {
  if (from == op.operands[0] || to == op.operands[0]) return std::nullopt;
  return same_layout(op, from, to, layout);
}

}  // namespace tile::cuda
