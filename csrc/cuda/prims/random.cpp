// random_u32 and random_u64. Where adjacent registers may share Philox blocks, they compute whole tiles.
#include <algorithm>

#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"
#include "cuda/register_loop.h"
#include "ir/walk.h"

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

// Returns true if elements share no block: their numbers are multiples of a block's words, plus a constant.
bool separate_blocks(const Op& op) {
  const int64_t bits = op.is("random_u32") ? 2 : 1;
  const Op* number = op.operands[2]->definition;
  if (number && number->is("add") && constant_of(number->operands[1]))
    number = number->operands[0]->definition;
  if (!number || !number->is("shift_left")) return false;
  const std::optional<Constant> by = constant_of(number->operands[1]);
  return by && by->integer >= bits;
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
  const char* apart = !type.is_scalar() && separate_blocks(op) ? "s_apart<" : "<";
  emitter.result(op, str("random_word", apart, type.dtype, ">(", operands, ")"));
}

std::string random_element(Emitter& emitter, const Op& op, const Elements& operands) {
  emitter.need("random.cuh");
  return str("random_word<", op.results[0]->type.dtype, ">(", operands.joined(), ")");
}

AddLoweringRule random_words(std::string_view name) {
  return AddLoweringRule({.name = name,
                          .emit = emit_random,
                          .relate = same_layout,
                          .across = true,
                          .grouped = true,
                          .element = random_element,
                          .by_elements = separate_blocks});
}
const AddLoweringRule random_[] = {random_words("random_u32"), random_words("random_u64")};

}  // namespace
}  // namespace tile::cuda
