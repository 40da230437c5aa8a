// arange, broadcast, reshape, permute, cat: most of them only rename registers.
#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"

namespace tile::cuda {
namespace {

void emit_arange(Emitter& emitter, const Op& op) {
  const Type& type = op.results[0]->type;
  emitter.result(op,
                 str("arange<", type.dtype, ", ", emitter.layout(emitter.layout_of(op.results[0])), ">()"));
}

// Emits a move; `weights` give each result element's row-major index in the operand, per axis of the result.
void emit_move(Emitter& emitter, const Op& op, const Weights& weights) {
  const Value *from = op.operands[0], *to = op.results[0];
  if (from->type.is_scalar())
    return emitter.result(op,
                          str("full<", emitter.layout(emitter.layout_of(to)), ">(", emitter.name(from), ")"));
  Layout layout = emitter.layout_of(from);
  std::string name = emitter.name(from);
  // A value that costs nothing to recompute is recomputed in the wanted layout.
  if (!emitter.registers_of(op, from))
    if (const auto wanted = related(op, to, from, emitter.layout_of(to)))
      if (std::string recomputed = emitter.made_anew(from, *wanted); !recomputed.empty())
        layout = *wanted, name = std::move(recomputed);
  const std::string expression = emitter.moved(op, name, from->type.dtype, layout,
                                               row_major(from->type.shape), emitter.layout_of(to), weights);
  emitter.result(op, to->type.is_scalar() ? expression + ".x[0]" : expression);
}

Weights broadcast_weights(const Op& op) {
  const Shape& from = op.type(0).shape;
  Weights weights = row_major(from);
  for (size_t axis = 0; axis < from.size(); ++axis)
    if (from[axis] == 1) weights[axis] = 0;
  return weights;
}
void emit_broadcast(Emitter& emitter, const Op& op) { emit_move(emitter, op, broadcast_weights(op)); }
std::pair<Weights, Weights> weights_of_broadcast(const Op& op) {
  return {row_major(op.type(0).shape), broadcast_weights(op)};
}
std::string same_element(Emitter&, const Op&, const Elements& operands) { return operands[0].element; }
// The result's layout follows from the operand's only along axes that do not grow.
std::optional<Layout> relate_broadcast(const Op& op, const Value* from, const Value* to,
                                       const Layout& layout) {
  if (from != op.results[0] || to->type.is_scalar()) return std::nullopt;
  return layout.collapsed(to->type.shape);
}

void emit_reshape(Emitter& emitter, const Op& op) {
  emit_move(emitter, op, row_major(op.results[0]->type.shape));
}
std::optional<Layout> relate_reshape(const Op&, const Value*, const Value* to, const Layout& layout) {
  return layout.reshaped(to->type.shape);
}

void emit_permute(Emitter& emitter, const Op& op) {
  const Weights from = row_major(op.type(0).shape);
  Weights weights;
  for (int64_t axis : op.integers("axes")) weights.push_back(from[static_cast<size_t>(axis)]);
  emit_move(emitter, op, weights);
}
std::optional<Layout> relate_permute(const Op& op, const Value* from, const Value*, const Layout& layout) {
  std::vector<int64_t> axes = op.integers("axes");
  if (from == op.operands[0]) return layout.permuted(axes);
  std::vector<int64_t> back(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) back[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
  return layout.permuted(back);
}

void emit_cat(Emitter& emitter, const Op& op) {
  emitter.need("move.cuh");
  const Type& type = op.results[0]->type;
  const Weights weights = row_major(type.shape);
  const auto axis = static_cast<size_t>(op.integer("axis"));
  emitter.need_shared(op, bytes_of(type));
  emitter.result(
      op, str("cat<", emitter.layout(emitter.layout_of(op.results[0])), ", ", weights_text(weights), ">(",
              emitter.name(op.operands[0]), ", ", emitter.name(op.operands[1]), ", ",
              op.type(0).shape[axis] * weights[axis], ", ", line_number(op), ")"));
}

const AddLoweringRule arange_{{.name = "arange", .emit = emit_arange, .across = true, .grouped = true}};
const AddLoweringRule broadcast_{{.name = "broadcast",
                                  .emit = emit_broadcast,
                                  .relate = relate_broadcast,
                                  .across = true,
                                  .grouped = true,
                                  .element = same_element,
                                  .moves = true,
                                  .weights = weights_of_broadcast}};
const AddLoweringRule reshape_{{.name = "reshape",
                                .emit = emit_reshape,
                                .relate = relate_reshape,
                                .across = true,
                                .grouped = true,
                                .element = same_element,
                                .moves = true}};
const AddLoweringRule permute_{
    {.name = "permute", .emit = emit_permute, .relate = relate_permute, .across = true, .grouped = true}};
const AddLoweringRule cat_{{"cat", emit_cat}};

}  // namespace
}  // namespace tile::cuda
