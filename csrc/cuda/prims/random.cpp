// random_u32 and random_u64. Tiles are made whole, since neighbouring registers share Philox's blocks.
#include "cuda/emitter.h"
#include "cuda/lowering.h"

namespace tile::cuda {
namespace {

void emit_random(Emitter& emitter, const Op& op) {
  emitter.need("random.cuh");
  const Type& type = op.results[0]->type;
  const std::string operands = join(op.operands, ", ", [&](const Value* operand) {
    return type.is_scalar() ? emitter.name(operand)
                            : emitter.in_layout(op, operand, emitter.layout_of(op.results[0]));
  });
  emitter.result(op, str("random_word<", type.dtype, ">(", operands, ")"));
}

const AddLowering random_u32_{
    {.name = "random_u32", .emit = emit_random, .relate = same_layout, .across = true}};
const AddLowering random_u64_{
    {.name = "random_u64", .emit = emit_random, .relate = same_layout, .across = true}};

}  // namespace
}  // namespace tile::cuda
