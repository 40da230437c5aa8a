// Matrix products: operands in shared memory, the accumulator in registers.
#include <algorithm>

#include "cuda/emitter.h"
#include "cuda/lowering.h"
#include "cuda/pipeline.h"

namespace tile::cuda {
namespace {

// By FMA, for every dtype: both operands go through shared memory.
void emit_fma(Emitter& emitter, const Op& op) {
  emitter.need("mma.cuh");
  const Layout& layout = emitter.layout_of(op.results[0]);
  const std::string to = emitter.in_layout(op, op.operands[2], layout);
  int64_t bytes = 0;
  const std::string left = emitter.write_shared(op, op.operands[0], bytes),
                    right = emitter.write_shared(op, op.operands[1], bytes);
  const Shape &x = op.type(0).shape, &y = op.type(1).shape;
  const size_t rank = x.size();
  emitter.synchronize(op);
  emitter.result(op, str("mma_fma<", x[rank - 2], ", ", y[rank - 1], ", ", x[rank - 1], ">(", left, ", ",
                         right, ", ", to, ", ", line_number(op), ")"));
  emitter.synchronize(op);
}

// How many neighbours of a row `count` registers hold, the first at a multiple of that: `count`, or 1.
int neighbours(const Layout& layout, int count) {
  if (layout.padded() || layout.vector_along(1) % count != 0) return 1;
  for (const Digit& digit : layout.digits())
    if (digit.axis == 1 && digit.weight != 1 && digit.weight % count != 0) return 1;
  return count;
}

// An operand of the tensor cores: where it stands, and whether something was written there just now.
struct Place {
  std::string text;
  bool written = false;
};
Place place_of(Emitter& emitter, const Op& op, size_t i, const MmaPlan& plan, int64_t& bytes) {
  const MmaOperand operand = mma_operand(op.operands[i]);
  const Op* load = operand.value->definition;
  if (const Staged* staged = load ? emitter.staging().of(*load) : nullptr) {
    const std::string name = emitter.name(operand.value);
    return {operand_text(i, str("decltype(", name, ")"), operand.turned != staged->turned, name)};
  }
  const Value* value = operand.value;
  const Type& type = value->type;
  const Layout& layout = emitter.layout_of(value);
  const MmaPlan rows{plan.warps_m, 1, plan.blocks_m, static_cast<int>(type.shape[1] / 8)};
  // Of 16 bits, sums stand as a left operand's fragments do.
  const int bytes_each = info(type.dtype).bytes;
  if (i == 0 && bytes_each == 2 && !operand.turned && plan.warps_n == 1 &&
      layout == accumulator_layout(type.shape, rows))
    return {str("RegisterLeft<", type.dtype, ", ", emitter.layout(layout), ">{", emitter.name(value), "}")};
  const std::string name = emitter.temporary();
  emitter.line(op, str("const SharedTile<", type.dtype, ", ", type.shape[0], ", ", type.shape[1], "> ", name,
                       " = {shared_memory() + ", bytes, "};"));
  bytes += element_count(type.shape) * bytes_each;
  emitter.need_shared(op, bytes);
  emitter.line(op, str("write_tile<", neighbours(layout, std::max(4 / bytes_each, 1)), ">(", name, ", ",
                       emitter.name(value), ", ", line_number(op), ");"));
  return {operand_text(i, str("decltype(", name, ")"), operand.turned, name), true};
}

void emit_mma(Emitter& emitter, const Op& op) {
  if (!emitter.staging().instruction(op)) return emit_fma(emitter, op);
  emitter.need("mma_sync.cuh");
  const MmaPlan plan = emitter.plan().mma(op);
  const Layout layout = accumulator_layout(op.type(2).shape, plan);
  const std::string to = emitter.in_layout(op, op.operands[2], layout);
  int64_t bytes = 0;
  const Place left = place_of(emitter, op, 0, plan, bytes), right = place_of(emitter, op, 1, plan, bytes);
  const bool written = left.written || right.written;
  if (written) emitter.synchronize(op);
  const Ring* ring = emitter.ring_of(op.parent->parent);
  if (ring && ring->product == &op)
    return emitter.result_in(op, layout,
                             str("mma_turn(", ring->fragments, ", ", left.text, ", ", right.text, ", ", to,
                                 ", ", ring->copies, ", ", ring->next_turn, ", ", line_number(op), ")"));
  emitter.result_in(op, layout,
                    str("mma_sync<", part_text(op, plan), ">(", left.text, ", ", right.text, ", ", to, ", ",
                        line_number(op), ")"));
  if (written) emitter.leave_shared();
}

// A product has its accumulator's layout.
std::optional<Layout> relate_mma(const Op& op, const Value* from, const Value* to, const Layout& layout) {
  auto sums = [&](const Value* value) { return value == op.operands[2] || value == op.results[0]; };
  if (!sums(from) || !sums(to)) return std::nullopt;
  return layout;
}

const AddLowering mma_{{"mma", emit_mma, relate_mma}};

}  // namespace
}  // namespace tile::cuda
