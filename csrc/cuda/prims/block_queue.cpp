// The ops of kernels that draw blocks from a queue: a line each. cuda/async/ops.h explains them.
#include "cuda/async/plan.h"
#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"

namespace tile::cuda {
namespace {

// Returns "function<Queue0>(queue, memory", of a call that ends in further arguments.
std::string call_text(std::string_view function) { return str(function, "<Queue0>(queue, memory, "); }

void emit_block_loop(Emitter& emitter, const Op& op) {
  const std::string block = emitter.name(op.region().arguments[0]);
  emitter.line(op, str("TILE_LOOP for (i32 ", block, " = ", emitter.name(op.operands[0]), "; ", block, " < ",
                       emitter.name(op.operands[1]), ";) {"));
  emitter.indent(1);
  emitter.block(op.region());
  emitter.indent(-1);
  emitter.close();
}
void emit_draw(Emitter& emitter, const Op& op) {
  emitter.result(op,
                 str("draw_block(block_counter, ", emitter.name(op.operands[0]), ", ", line_number(op), ")"));
}
void emit_put(Emitter& emitter, const Op& op) {
  emitter.line(op, str(call_text("put_block"), emitter.name(op.operands[0]), ", ", line_number(op), ");"));
}
void emit_take(Emitter& emitter, const Op& op) {
  emitter.result(op, str(call_text(op.integer("by_thread") ? "take_block_by_thread" : "take_block"),
                         line_number(op), ")"));
}
void emit_close(Emitter& emitter, const Op& op) {
  emitter.line(op, str("close_queue(block_counter, ", line_number(op), ");"));
}

const AddGroupedRules grouped_{
    {"block_loop", emit_block_loop}, {"queue_draw", emit_draw},   {"queue_put", emit_put},
    {"queue_take", emit_take},       {"queue_close", emit_close},
};

}  // namespace
}  // namespace tile::cuda
