// random_u32 and random_u64. They compute whole tiles, because adjacent registers share Philox blocks.
#include <algorithm>

#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"

namespace tile::cuda {
namespace {

// Returns the scalar that a tile repeats, or null.
const Value* repeated(const Value* value) {
  const Op* made = value->definition;
  return made && made->is("broadcast") && made->operands[0]->type.is_scalar() ? made->operands[0] : nullptr;
}
// Returns the scalar from which a tile counts up along its only axis longer than 1, or null.
const Value* counts_from(const Value* value) {
  const Op* sum = value->definition;
  if (!sum || !sum->is("add")) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    const Op* index = sum->operands[i]->definition;
    if (index && index->is("reshape")) index = index->operands[0]->definition;
    if (index && index->is("arange")) return repeated(sum->operands[1 - i]);
  }
  return nullptr;
}

void emit_random(Emitter& emitter, const Op& op) {
  emitter.need("random.cuh");
  const Type& type = op.results[0]->type;
  const Value *seed = repeated(op.operands[0]), *stream = repeated(op.operands[1]),
              *first = counts_from(op.operands[2]);
  if (seed && stream && first) {
    const auto longest = std::max_element(type.shape.begin(), type.shape.end());
    const Layout& layout = emitter.layout_of(op.results[0]);
    return emitter.result(op, str("random_word_along<", type.dtype, ", ", longest - type.shape.begin(), ">(",
                                  emitter.name(seed), ", ", emitter.name(stream), ", ", emitter.name(first),
                                  ", ", emitter.in_layout(op, op.operands[2], layout), ")"));
  }
  const std::string operands = join(op.operands, ", ", [&](const Value* operand) {
    return type.is_scalar() ? emitter.name(operand)
                            : emitter.in_layout(op, operand, emitter.layout_of(op.results[0]));
  });
  emitter.result(op, str("random_word<", type.dtype, ">(", operands, ")"));
}

const AddLoweringRule random_u32_{
    {.name = "random_u32", .emit = emit_random, .relate = same_layout, .across = true}};
const AddLoweringRule random_u64_{
    {.name = "random_u64", .emit = emit_random, .relate = same_layout, .across = true}};

}  // namespace
}  // namespace tile::cuda
