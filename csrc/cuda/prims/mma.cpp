// Matrix products: operands in shared memory, the accumulator in registers.
#include <algorithm>

#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"
#include "cuda/pipeline.h"

namespace tile::cuda {
namespace {

// Emits a product by FMA element by element, for every dtype: both operands go through shared memory.
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

// Returns `count` if each group of `count` registers holds adjacent elements of a row at a multiple of
// `count`, else 1.
int neighbours(const Layout& layout, int count) {
  if (layout.padded() || layout.vector_along(1) % count != 0) return 1;
  for (const Mode& mode : layout.modes())
    if (mode.axis == 1 && mode.weight != 1 && mode.weight % count != 0) return 1;
  return count;
}

// A product's operand on the tensor cores, or of a product by blocks of FMA.
struct Operand {
  const Value* value;
  bool transposed;       // when it is read
  const Staged* staged;  // null: it was computed
  bool in_registers;     // 16-bit accumulators have the layout of a left operand's fragments
  int64_t bytes() const { return bytes_of(value->type); }
};
Operand operand_of(const Emitter& emitter, const Op& op, size_t i) {
  const MmaOperand read = mma_operand(op.operands[i]);
  const Type& type = read.value->type;
  const Op* load = read.value->definition;
  const Staged* staged = load ? emitter.staging().of(*load) : nullptr;
  if (staged) return {read.value, read.transposed != staged->transposed, staged, false};
  if (emitter.staging().by_blocks(op)) return {read.value, read.transposed, nullptr, false};
  const MmaPlan plan = emitter.plan().mma(op),
                rows{plan.warps_m, 1, plan.blocks_m, static_cast<int>(type.shape[1] / 8)};
  const bool as_fragments = i == 0 && info(type.dtype).bytes == 2 && !read.transposed && plan.warps_n == 1 &&
                            emitter.layout_of(read.value) == accumulator_layout(type.shape, rows);
  return {read.value, read.transposed, nullptr, as_fragments};
}

bool is_written(const Emitter& emitter, const Operand& operand) {
  return !emitter.written_operand(operand.value).empty();
}
bool must_write(const Emitter& emitter, const Operand& operand) {
  return !operand.staged && !operand.in_registers && !is_written(emitter, operand);
}
void write(Emitter& emitter, const Op& op, const Operand& operand) {
  const Type& type = operand.value->type;
  const int together = neighbours(emitter.layout_of(operand.value), std::max(4 / info(type.dtype).bytes, 1));
  const std::string tile = emitter.name(operand.value), name = emitter.temporary();
  const int64_t offset = emitter.take_operand(op, operand.value, operand.bytes(), name);
  emitter.line(op, str("const SharedTile<", type.dtype, ", ", type.shape[0], ", ", type.shape[1], "> ", name,
                       " = {shared_memory() + ", offset, "};"));
  emitter.line(op, str("write_tile<", together, ">(", name, ", ", tile, ", ", line_number(op), ");"));
}

// Returns true if a value is already in the emitted source, or is computed elementwise from such values.
bool follows(const Emitter& emitter, const Block& block, const Value* value) {
  const Op* made = value->definition;
  if (emitter.is_known(value) || (made && made->is("constant"))) return true;
  return made && made->parent == &block && made->traits().elementwise &&
         std::all_of(made->operands.begin(), made->operands.end(),
                     [&](const Value* operand) { return follows(emitter, block, operand); });
}
void make_known(Emitter& emitter, const Value* value) {
  const Op* made = value->definition;
  if (emitter.is_known(value) || made->is("constant")) return;
  for (const Value* operand : made->operands) make_known(emitter, operand);
  emitter.op(*made);
  emitter.set_emitted(made);
}

// Writes the product's missing operands to shared memory. Operands of the block's later products are written
// as well if they are known already, so that one barrier serves them all.
void write_operands(Emitter& emitter, const Op& op) {
  const auto missing = [&](const Op& product) {
    std::vector<Operand> all;
    for (size_t i = 0; i < 2; ++i)
      if (const Operand each = operand_of(emitter, product, i); must_write(emitter, each))
        all.push_back(each);
    if (all.size() == 2 && all[0].value == all[1].value) all.pop_back();
    return all;
  };
  const auto bytes_of = [](const std::vector<Operand>& all) {
    int64_t bytes = 0;
    for (const Operand& each : all) bytes += each.bytes();
    return bytes;
  };
  std::vector<Operand> own = missing(op);
  if (own.empty()) return;
  if (!emitter.has_room_for(bytes_of(own))) {
    emitter.forget_operands();
    own = missing(op);
  }
  for (const Operand& each : own) write(emitter, op, each);
  bool later = false;
  for (const auto& other : op.parent->ops) {
    if (later && other->is("mma") && emitter.staging().multiplies(*other))
      for (const Operand& each : missing(*other))
        if (emitter.has_room_for(each.bytes()) && follows(emitter, *op.parent, each.value)) {
          make_known(emitter, each.value);
          write(emitter, *other, each);
        }
    later = later || other.get() == &op;
  }
  emitter.synchronize(op);
}

std::string tile_name(Emitter& emitter, const Operand& operand) {
  return operand.staged ? emitter.name(operand.value) : emitter.written_operand(operand.value);
}
std::string memory_text(Emitter& emitter, const Op& op, size_t i) {
  const Operand operand = operand_of(emitter, op, i);
  if (operand.in_registers)
    return str("RegisterLeft<", operand.value->type.dtype, ", ",
               emitter.layout(emitter.layout_of(operand.value)), ">{", emitter.name(operand.value), "}");
  const std::string name = tile_name(emitter, operand);
  return operand_text(i, str("decltype(", name, ")"), operand.transposed, name);
}

// Records that threads may still be reading operands that were written for the product. The result may need
// shared memory, too, to get its layout: this comes first, so that it waits.
void leave_operands(Emitter& emitter, const Op& op) {
  for (size_t i = 0; i < 2; ++i)
    if (const Operand each = operand_of(emitter, op, i); !each.in_registers && is_written(emitter, each))
      emitter.leave_shared();
}

// Returns the layout of a product's sums by blocks. Products that add to the same sums share one, even if
// their operands suit another: conversions in each iteration would cost more.
Layout layout_of_blocks(const Emitter& emitter, const Op& op) {
  const Shape& shape = op.type(2).shape;
  FmaPlan plan = emitter.plan().fma(op);
  const Layout preferred = fma_layout(shape, plan), &known = emitter.layout_of(op.results[0]);
  for (const bool rows : {false, true})
    for (const bool columns : {false, true}) {
      plan.adjacent_rows = rows, plan.adjacent_columns = columns;
      if (fma_layout(shape, plan) == known) return known;
    }
  return preferred;
}

void emit_blocks(Emitter& emitter, const Op& op) {
  emitter.need("fma.cuh");
  const FmaPlan plan = emitter.plan().fma(op);
  const Layout layout = layout_of_blocks(emitter, op);
  const std::string to = emitter.in_layout(op, op.operands[2], layout);
  write_operands(emitter, op);
  const std::string left = tile_name(emitter, operand_of(emitter, op, 0)),
                    right = tile_name(emitter, operand_of(emitter, op, 1));
  const auto across = [&](size_t i) { return emitter.staging().across_rows(op, i) ? "true" : "false"; };
  leave_operands(emitter, op);
  emitter.result_in(
      op, layout,
      str("fma_blocks<", op.type(0).shape[1], ", ", plan.rows, ", ", plan.columns, ", ", across(0), ", ",
          across(1), ">(", left, ", ", right, ", ", to, ", ", line_number(op), ")"));
}

void emit_mma(Emitter& emitter, const Op& op) {
  emitter.await_copies(op);
  if (emitter.staging().by_blocks(op)) return emit_blocks(emitter, op);
  if (!emitter.staging().instruction(op)) return emit_fma(emitter, op);
  emitter.need("mma_sync.cuh");
  const MmaPlan plan = emitter.plan().mma(op);
  const Layout layout = accumulator_layout(op.type(2).shape, plan);
  const std::string to = emitter.in_layout(op, op.operands[2], layout);
  write_operands(emitter, op);
  const std::string left = memory_text(emitter, op, 0), right = memory_text(emitter, op, 1);
  const Ring* ring = emitter.ring_of(op.parent->parent);
  if (ring && ring->product == &op)
    return emitter.result_in(op, layout,
                             str("mma_iteration(", ring->fragments, ", ", left, ", ", right, ", ", to, ", ",
                                 ring->copies, ", ", ring->next_iteration, ", ", line_number(op), ")"));
  leave_operands(emitter, op);
  emitter.result_in(
      op, layout,
      str("mma_sync<", part_text(op, plan), ">(", left, ", ", right, ", ", to, ", ", line_number(op), ")"));
}

// A product's result has its accumulator's layout.
std::optional<Layout> relate_mma(const Op& op, const Value* from, const Value* to, const Layout& layout) {
  auto sums = [&](const Value* value) { return value == op.operands[2] || value == op.results[0]; };
  if (!sums(from) || !sums(to)) return std::nullopt;
  return layout;
}

const AddLoweringRule mma_{{"mma", emit_mma, relate_mma}};

}  // namespace
}  // namespace tile::cuda
