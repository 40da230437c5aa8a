// Block numbers, extents and strides, views of arrays: scalars and small structs a thread computes for
// itself.
#include "cuda/emitter.h"
#include "cuda/lowering.h"

namespace tile::cuda {
namespace {

void emit_grid(Emitter& emitter, const Op& op) {
  const int64_t axis = op.integer("axis"), swapped = emitter.target().long_axis;
  emitter.result(op, str(op.name(), "<", axis == 0 ? swapped : axis == swapped ? 0 : axis, ">()"));
}
void emit_dim(Emitter& emitter, const Op& op) {
  emitter.result(op, str("dim(", emitter.name(op.operands[0]), ", ", op.integer("axis"), ")"));
}
void emit_stride(Emitter& emitter, const Op& op) {
  emitter.result(op, str("stride(", emitter.name(op.operands[0]), ", ", op.integer("axis"), ")"));
}

std::string names(Emitter& emitter, const Op& op) {
  return join(op.operands, ", ", [&](const Value* value) { return emitter.name(value); });
}
void emit_index(Emitter& emitter, const Op& op) {
  emitter.result(op, str("index(", names(emitter, op), ")"));
}
void emit_slice(Emitter& emitter, const Op& op) {
  emitter.result(op, str("slice<", op.integer("axis"), ">(", names(emitter, op), ")"));
}
void emit_permute(Emitter& emitter, const Op& op) {
  emitter.result(op, str("permute_array<", join(op.integers("axes")), ">(", names(emitter, op), ")"));
}

const AddLowering bid_{{"bid", emit_grid}};
const AddLowering num_blocks_{{"num_blocks", emit_grid}};
const AddLowering dim_{{"dim", emit_dim}};
const AddLowering stride_{{"stride", emit_stride}};
const AddLowering index_{{"index", emit_index}};
const AddLowering slice_{{"slice", emit_slice}};
const AddLowering permute_array_{{"permute_array", emit_permute}};

}  // namespace
}  // namespace tile::cuda
