// Block indices, extents, strides and views of arrays: scalars and small structs that every thread computes.
#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"

namespace tile::cuda {
namespace {

void emit_grid(Emitter& emitter, const Op& op) {
  const int64_t axis = op.integer("axis"), swapped = emitter.target().long_axis;
  const int64_t launched = axis == 0 ? swapped : axis == swapped ? 0 : axis;
  // A cluster runs one block of the user's grid.
  const int blocks = launched == 0 ? emitter.plan().cluster() : 1;
  emitter.result(op, str(op.name(), "<", launched, ">()", blocks > 1 ? str(" / ", blocks) : ""));
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
  emitter.result(op, str("slice<", op.integer("axis"), emitter.facts(op.results[0]).wide ? ", wide" : "",
                         ">(", names(emitter, op), ")"));
}
void emit_permute(Emitter& emitter, const Op& op) {
  emitter.result(op, str("permute_array<", join(op.integers("axes")), ">(", names(emitter, op), ")"));
}

const AddLoweringRule bid_{{.name = "bid", .emit = emit_grid, .across = true}};
const AddLoweringRule num_blocks_{{.name = "num_blocks", .emit = emit_grid, .across = true}};
const AddLoweringRule dim_{{.name = "dim", .emit = emit_dim, .across = true}};
const AddLoweringRule stride_{{.name = "stride", .emit = emit_stride, .across = true}};
const AddLoweringRule index_{{.name = "index", .emit = emit_index, .across = true}};
const AddLoweringRule slice_{{.name = "slice", .emit = emit_slice, .across = true}};
const AddLoweringRule permute_array_{{.name = "permute_array", .emit = emit_permute, .across = true}};

}  // namespace
}  // namespace tile::cuda
