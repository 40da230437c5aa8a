// The registry of lowering rules.
#include "cuda/lowering_rule.h"

#include <map>

namespace tile::cuda {
namespace {

std::map<std::string_view, LoweringRule>& lowerings() {
  static auto* const table = new std::map<std::string_view, LoweringRule>;
  return *table;
}

}  // namespace

AddLoweringRule::AddLoweringRule(const LoweringRule& lowering) {
  lowerings().emplace(lowering.name, lowering);
}

const LoweringRule* find_lowering(std::string_view primitive) {
  const auto found = lowerings().find(primitive);
  return found == lowerings().end() ? nullptr : &found->second;
}
bool has_cuda_body(std::string_view primitive) { return find_lowering(primitive) != nullptr; }
bool reduces(const Op& op) {
  const LoweringRule* lowering = find_lowering(op.name());
  return lowering && lowering->reduces;
}
const Value* accessed(const Op& op) {
  const LoweringRule* lowering = find_lowering(op.name());
  return lowering && lowering->accessed ? lowering->accessed(op) : nullptr;
}

std::optional<Layout> related(const Op& op, const Value* from, const Value* to, const Layout& layout) {
  const LoweringRule* lowering = find_lowering(op.name());
  if (!lowering || !lowering->relate) return std::nullopt;
  return lowering->relate(op, from, to, layout);
}
std::optional<Layout> same_layout(const Op&, const Value* from, const Value* to, const Layout& layout) {
  if (from->type.shape != to->type.shape) return std::nullopt;
  return layout;
}

}  // namespace tile::cuda
