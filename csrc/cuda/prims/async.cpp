// The asynchronous ops: one line each. cuda/async/ops.h explains them.
#include "cuda/async/plan.h"
#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"

namespace tile::cuda {
namespace {

const AsyncPlan& plan_of(Emitter& emitter) { return *emitter.plan().async(); }
size_t ring_number(const Op& op) { return static_cast<size_t>(op.integer("ring")); }
const AsyncRing& ring_of(Emitter& emitter, const Op& op) { return plan_of(emitter).rings[ring_number(op)]; }

// Returns "Ring0", after defining the struct.
std::string ring_type(Emitter& emitter, size_t number) {
  emitter.need("rings.cuh");
  const AsyncPlan& plan = plan_of(emitter);
  const AsyncRing& ring = plan.rings[number];
  return emitter.define_struct(
      "Ring", str("  static constexpr int stages = ", ring.stages, ", bytes = ", ring.stage_bytes,
                  ", copied = ", ring.copied_bytes(), ", groups = ",
                  plan.groups * (ring.read_by_warps() ? AsyncPlan::group_threads / 32 : 1) *
                      (ring.shared() ? plan.cluster : 1),
                  ", offset = ", ring.offset, ", full = ", ring.full, ", empty = ", ring.empty, ";\n"));
}

// Emits "function<Ring0>(ring0, memory, 54);".
void call(Emitter& emitter, const Op& op, std::string_view function) {
  const size_t number = ring_number(op);
  emitter.line(op, str(function, "<", ring_type(emitter, number), ">(ring", number, ", memory, ",
                       line_number(op), ");"));
}
void emit_fill(Emitter& emitter, const Op& op) { call(emitter, op, "fill_stage"); }
void emit_wait(Emitter& emitter, const Op& op) { call(emitter, op, "wait_for_stage"); }
// The same for what a group tells the producers of both CTAs of a pair, if the ring is theirs:
// "function_to_pair<Ring0>(ring0, memory, half, 54);".
void tell(Emitter& emitter, const Op& op, std::string_view function) {
  if (!ring_of(emitter, op).shared()) return call(emitter, op, function);
  const size_t number = ring_number(op);
  emitter.need("pairs.cuh");
  emitter.line(op, str(function, "_to_pair<", ring_type(emitter, number), ">(ring", number,
                       ", memory, half, ", line_number(op), ");"));
}
void emit_free(Emitter& emitter, const Op& op) { tell(emitter, op, "free_stage"); }
void emit_drain(Emitter& emitter, const Op& op) { tell(emitter, op, "drain_ring"); }
void emit_release(Emitter& emitter, const Op& op) {
  if (ring_of(emitter, op).read_by_warps()) return call(emitter, op, "release_by_warps");
  tell(emitter, op, "release_stage");
}
void emit_next(Emitter& emitter, const Op& op) {
  emitter.line(op, str("ring", ring_number(op), ".next<", ring_of(emitter, op).stages, ">();"));
}

void emit_roles(Emitter& emitter, const Op& op) {
  const AsyncPlan& plan = plan_of(emitter);
  const auto begin_region = [&](const char* head) {
    emitter.line(op, head);
    emitter.indent(1);
  };
  const auto end_region = [&] {
    emitter.indent(-1);
    emitter.close();
  };
  const auto move_registers = [&](const char* function, int count) {
    if (plan.moves_registers()) emitter.line(op, str(function, "<", count, ">(", line_number(op), ");"));
  };
  const auto declare_rings = [&] {
    for (size_t i = 0; i < plan.rings.size(); ++i) emitter.line(op, str("Ring ring", i, ";"));
  };
  for (size_t i = 0; i < plan.rings.size(); ++i) ring_type(emitter, i);
  begin_region("if (group == 0) {");
  move_registers("give_registers", plan.producer_registers());
  begin_region(str("if (elected_thread(", line_number(op), ")) {").c_str());
  declare_rings();
  emitter.block(op.region(0));
  end_region();
  if (op.region(1).ops.size() > 1) {
    begin_region("if (thread() == 32) {");
    declare_rings();
    emitter.block(op.region(1));
    end_region();
  }
  end_region();
  begin_region("else {");
  move_registers("take_registers", plan.group_registers());
  declare_rings();
  for (size_t i = 0; i < plan.operands.size(); ++i) emitter.line(op, str("int buffer", i, " = 0;"));
  emitter.block(op.region(2));
  end_region();
}

// Returns the map of a tile's array: a copy moves so many rows of a panel.
TensorMapSpec map_of(const CopiedTile& tile, int unit, int64_t rows) {
  std::vector<int> box;
  for (size_t axis = 0; axis < tile.axes.size(); ++axis) {
    const bool is_unit = static_cast<int>(axis) == unit;
    box.push_back(static_cast<int>(is_unit ? tile.layout.panel : tile.axes[axis] < 0 ? 1 : rows));
  }
  return {.parameter = tile.parameter,
          .unit = unit,
          .box = std::move(box),
          .swizzle = tile.layout.swizzle,
          .rounds = tile.rounds};
}

// Returns the first element of a tile along each axis of its array; the indices begin at operand `first`.
std::vector<std::string> starts_text(Emitter& emitter, const Op& op, size_t first) {
  std::vector<std::string> starts;
  for (size_t i = first; i < op.operands.size(); ++i)
    starts.push_back(
        str("tile_start<", op.integers("steps")[i - first], ">(", emitter.name(op.operands[i]), ")"));
  return starts;
}
// Returns the coordinates in the order of the map: that along the unit axis, then the others from last to
// first.
std::vector<std::string> coordinates(const std::vector<std::string>& starts, int unit) {
  std::vector<std::string> at{starts[static_cast<size_t>(unit)]};
  for (size_t axis = starts.size(); axis-- > 0;)
    if (static_cast<int>(axis) != unit) at.push_back(starts[axis]);
  return at;
}

// Emits the copies of half a tile to both CTAs of a pair: of half the panels, or of half of each panel's
// rows.
void emit_shared_load(Emitter& emitter, const Op& op) {
  const size_t number = ring_number(op);
  const RingTile& tile = ring_of(emitter, op).tiles[static_cast<size_t>(op.integer("tile"))];
  const SharedLayout& layout = tile.layout;
  const std::string type = ring_type(emitter, number);
  const int unit = emitter.facts(op.operands[0]).unit;
  const bool panels = tile.halves_panels();
  const int64_t rows = panels ? layout.rows : layout.rows / 2,
                copies = panels ? layout.panels() / 2 : layout.panels(),
                half_bytes = panels ? copies * layout.panel_bytes() : layout.panel_bytes() / 2;
  const std::string map = emitter.tensor_map(map_of(tile, unit, rows));
  std::vector<std::string> starts = starts_text(emitter, op, 1);
  for (size_t axis = 0; axis < starts.size(); ++axis)
    if (tile.axes[axis] >= 0 && panels == (static_cast<int>(axis) == unit))
      starts[axis] += str(" + half * ", panels ? copies * layout.panel : rows);
  const std::vector<std::string> first = coordinates(starts, unit);
  emitter.need("pairs.cuh");
  for (int64_t panel = 0; panel < copies; ++panel) {
    std::vector<std::string> at = first;
    if (panel) at[0] += str(" + ", panel * layout.panel);
    emitter.line(op, str("copy_tensor_to_cluster<", at.size(), ">(stage_address<", type, ">(ring", number,
                         ", memory) + ", tile.offset + panel * layout.panel_bytes(), " + half * ", half_bytes,
                         ", ", map, ", full_barrier<", type, ">(ring", number, ", memory), {", join(at),
                         "}, both_of_pair, ", line_number(op), ");"));
  }
}

// Emits a copy for each panel of the tile.
void emit_ring_load(Emitter& emitter, const Op& op) {
  if (op.has("shared")) return emit_shared_load(emitter, op);
  const size_t number = ring_number(op);
  const RingTile& tile = ring_of(emitter, op).tiles[static_cast<size_t>(op.integer("tile"))];
  const std::string type = ring_type(emitter, number);
  const int unit = emitter.facts(op.operands[0]).unit;
  const std::string map = emitter.tensor_map(map_of(tile, unit, tile.layout.rows));
  const std::vector<std::string> first = coordinates(starts_text(emitter, op, 1), unit);
  for (int64_t panel = 0; panel < tile.layout.panels(); ++panel) {
    std::vector<std::string> at = first;
    if (panel) at[0] += str(" + ", panel * tile.layout.panel);
    emitter.line(
        op, str("copy_tensor<", at.size(), ">(stage_address<", type, ">(ring", number, ", memory) + ",
                tile.offset + panel * tile.layout.panel_bytes(), ", ", map, ", full_barrier<", type, ">(ring",
                number, ", memory), {", join(at), "}, ", line_number(op), ");"));
  }
}

// The tile needs no line: products name its address.
void emit_ring_tile(Emitter&, const Op&) {}

void emit_ring_read(Emitter& emitter, const Op& op) {
  const AsyncPlan& plan = plan_of(emitter);
  const size_t number = ring_number(op);
  const SharedLayout& layout = plan.rings[number].tiles[0].layout;
  emitter.need("panels_in.cuh");
  const std::string tile = emitter.define_struct(
      "Read", str("  static constexpr int rows = ", plan.row_blocks, ", panels = ", layout.panels(),
                  ", chunks = ", layout.pitch / 16, ", panel_bytes = ", layout.panel_bytes(), ";\n"));
  const Layout sums = plan.accumulator(op.results[0]->type.shape);
  emitter.result_in(
      op, sums,
      str("read_stage<", tile, ", ", ring_type(emitter, number), ", ", op.results[0]->type.dtype, ", ",
          emitter.layout(sums), ">(ring", number, ", memory, group, ", line_number(op), ")"));
}

void emit_ring_row(Emitter& emitter, const Op& op) {
  const size_t number = ring_number(op);
  emitter.need("rows_in.cuh");
  emitter.result(op, str("read_row<", ring_type(emitter, number), ", ", op.results[0]->type.dtype, ", ",
                         emitter.layout(emitter.layout_of(op.results[0])), ">(ring", number, ", memory, ",
                         line_number(op), ")"));
}

// How wgmma reads an operand in shared memory.
struct WgmmaOperand {
  const SharedLayout* layout;
  bool k_major;
  std::string address;
  // Returns the offset of the k step that begins at element `k`.
  int64_t step(int64_t k) const { return layout->offset_of(k_major ? 0 : k, k_major ? k : 0); }
  // Returns the offset of the block of rows, or columns, that begins at element `i`.
  int64_t block(int64_t i) const { return layout->offset_of(k_major ? i : 0, k_major ? 0 : i); }
};
WgmmaOperand operand_of(Emitter& emitter, const Op& op, size_t i) {
  const Op& made = *op.operands[i]->definition;
  const bool transposed = op.integer(i ? "right_transposed" : "left_transposed") != 0;
  // Elements are adjacent along k if the tile's last axis is k and adjacent, or its first is.
  const auto k_major = [&](const SharedLayout& layout) {
    return ((i == 0) != transposed) == (layout.major == Major::columns);
  };
  if (made.is("put_shared")) {
    const SharedLayout& layout =
        plan_of(emitter).operands[static_cast<size_t>(made.integer("operand"))].layout;
    return {&layout, k_major(layout), emitter.name(op.operands[i])};
  }
  const size_t number = ring_number(made);
  const RingTile& tile = ring_of(emitter, made).tiles[static_cast<size_t>(made.integer("tile"))];
  return {&tile.layout, k_major(tile.layout),
          str("stage_address<", ring_type(emitter, number), ">(ring", number, ", memory) + ", tile.offset)};
}
std::string steps_text(const std::vector<int64_t>& offsets, const char* name) {
  return str("  TILE static constexpr int ", name, "(int i) { constexpr int at[] = {", join(offsets),
             "}; return at[i]; }\n");
}

bool in_registers(const Value* operand) {
  const Op* made = operand->definition;
  return !made || !(made->is("ring_tile") || made->is("put_shared"));
}
std::string fields_text(const char* side, const WgmmaOperand& operand) {
  const SharedLayout::Descriptor descriptor = *operand.layout->wgmma_descriptor(operand.k_major);
  return str("  static constexpr bool ", side, "_k_major = ", operand.k_major ? "true" : "false", ";\n",
             "  static constexpr int ", side, "_leading = ", descriptor.leading, ", ", side,
             "_stride = ", descriptor.stride, ", ", side, "_mode = ", descriptor.mode, ";\n");
}
void emit_mma_issue(Emitter& emitter, const Op& op) {
  const AsyncPlan& plan = plan_of(emitter);
  const DType dtype = op.type(0).dtype;
  const bool by_columns = plan.divides_columns(op.type(2).shape);
  const int64_t columns = op.type(2).shape[1] / (by_columns ? plan.groups : 1),
                k = op.type(0).shape[op.integer("left_transposed") ? 0 : 1], step = 32 / info(dtype).bytes;
  // Each group has its own rows, or columns.
  const auto own = [&](const WgmmaOperand& operand, int64_t extent) {
    return str(operand.address, plan.groups > 1 ? str(" + (group - 1) * ", operand.block(extent)) : "");
  };
  const auto steps_of = [&](const WgmmaOperand& operand, const char* name) {
    std::vector<int64_t> steps;
    for (int64_t at = 0; at < k; at += step) steps.push_back(operand.step(at));
    return steps_text(steps, name);
  };
  emitter.need("wgmma.cuh");
  emitter.need_wgmma(columns, dtype, op.type(1).dtype);
  const WgmmaOperand right = operand_of(emitter, op, 1);
  std::string body =
      str("  using Left = ", dtype, ";\n  using Right = ", op.type(1).dtype, ";\n",
          "  static constexpr int columns = ", columns, ", rows = ", plan.row_blocks, ", steps = ", k / step,
          ";\n", fields_text("right", right), steps_of(right, "right_step"));
  std::string function = "mma_issued", left_text;
  if (in_registers(op.operands[0])) {
    function = "mma_issued_from_registers";
    left_text = emitter.in_layout(op, op.operands[0], plan.accumulator(op.type(0).shape));
  } else {
    const WgmmaOperand left = operand_of(emitter, op, 0);
    std::vector<int64_t> blocks;
    for (int i = 0; i < plan.row_blocks; ++i)
      blocks.push_back(left.block(int64_t{i} * AsyncPlan::block_rows));
    body += str(fields_text("left", left), steps_of(left, "left_step"), steps_text(blocks, "left_block"));
    left_text = by_columns ? left.address : own(left, int64_t{AsyncPlan::block_rows} * plan.row_blocks);
  }
  const std::string product = emitter.define_struct("Product", body);
  emitter.result(op, str(function, "<", product, ">(", emitter.name(op.operands[2]), ", ", left_text, ", ",
                         by_columns ? own(right, columns) : right.address, ", ", emitter.name(op.operands[3]),
                         ", ", line_number(op), ")"));
}
void emit_put_shared(Emitter& emitter, const Op& op) {
  const AsyncPlan& plan = plan_of(emitter);
  const auto number = static_cast<size_t>(op.integer("operand"));
  const SharedOperand& operand = plan.operands[number];
  const Shape& shape = op.type(0).shape;
  const bool by_columns = plan.divides_columns(shape);
  emitter.need("shared_operand.cuh");
  const std::string type = emitter.define_struct(
      "Put",
      str("  static constexpr bool by_columns = ", by_columns ? "true" : "false",
          ";\n  static constexpr int rows = ", plan.row_blocks,
          ", columns = ", shape[1] / (by_columns ? plan.groups : 1), ", chunks = ", operand.layout.pitch / 16,
          ", panel_bytes = ", operand.layout.panel_bytes(), ", bytes = ", operand.layout.stage_bytes(),
          ", offset = ", operand.offset, ", threads = ", plan.groups * AsyncPlan::group_threads, ";\n"));
  const std::string value = emitter.in_layout(op, op.operands[0], plan.accumulator(shape)),
                    name = emitter.fresh_name(op.results[0]);
  emitter.line(op, str("const SharedAddress ", name, " = put_shared<", type, ">(", value, ", memory, buffer",
                       number, ", group, ", line_number(op), ");"));
}
void emit_mma_retire(Emitter& emitter, const Op& op) {
  emitter.line(op, str("mma_retire<", op.integer("pending"), ">(", line_number(op), ");"));
}
void emit_mma_await(Emitter& emitter, const Op& op) {
  emitter.result(op, str("mma_awaited<", op.integer("pending"), ">(", emitter.name(op.operands[0]), ", ",
                         line_number(op), ")"));
}

std::optional<Layout> relate_issue(const Op& op, const Value* from, const Value* to, const Layout& layout) {
  const auto sums = [&](const Value* value) { return value == op.operands[2] || value == op.results[0]; };
  return sums(from) && sums(to) ? std::optional(layout) : std::nullopt;
}

void emit_undefined(Emitter& emitter, const Op& op) {
  emitter.need("accumulators.cuh");
  emitter.result(op, str("undefined<", op.results[0]->type.dtype, ", ",
                         emitter.layout(emitter.layout_of(op.results[0])), ">()"));
}
void emit_zero_unless(Emitter& emitter, const Op& op) {
  emitter.need("accumulators.cuh");
  emitter.result(op,
                 str("zero_unless(", emitter.name(op.operands[0]), ", ", emitter.name(op.operands[1]), ")"));
}
std::optional<Layout> relate_zero_unless(const Op& op, const Value* from, const Value* to,
                                         const Layout& layout) {
  return from == op.operands[0] || to == op.operands[0] ? std::nullopt : std::optional(layout);
}

void emit_store_async(Emitter& emitter, const Op& op) {
  const AsyncPlan& plan = plan_of(emitter);
  const PanelStore& store = plan.stores[static_cast<size_t>(op.integer("tile"))];
  const int unit = emitter.facts(op.operands[0]).unit;
  emitter.need("panels_out.cuh");
  const auto rows = std::find(store.axes.begin(), store.axes.end(), 0) - store.axes.begin();
  const std::vector<std::string> at = coordinates(starts_text(emitter, op, 2), unit);
  // Coordinates are counted from the last axis, the unit axis first.
  const auto row = static_cast<int64_t>(store.axes.size()) - rows - (rows < unit ? 1 : 0);
  const std::string panels = emitter.define_struct(
      "Panels", str("  static constexpr int rows = ", plan.row_blocks, ", panels = ", store.layout.panels(),
                    ", columns = ", store.layout.panel, ", chunks = ", store.layout.pitch / 16,
                    ", row = ", row, ", first = ", store.first, ", buffers = ", AsyncPlan::panel_buffers,
                    ", bytes = ", AsyncPlan::panel_bytes, ", offset = ", plan.panels_offset,
                    ";\n  static constexpr bool waits_all = ", store.waits_all ? "true" : "false", ";\n"));
  const std::string value = emitter.in_layout(op, op.operands[1], plan.accumulator(op.type(1).shape));
  emitter.line(op, str("store_panels<", panels, ">(", value, ", ",
                       emitter.tensor_map(map_of(store, unit, store.layout.rows)), ", memory, group, {",
                       join(at), "}, ", line_number(op), ");"));
}
void emit_store_wait(Emitter& emitter, const Op& op) {
  emitter.line(op, str("wait_for_panels(", line_number(op), ");"));
}

LoweringRule rule(std::string_view name, void (*emit)(Emitter&, const Op&)) {
  return {.name = name, .emit = emit, .grouped = true};
}
const AddLoweringRule rules_[] = {
    AddLoweringRule(rule("roles", emit_roles)),
    AddLoweringRule(rule("ring_fill", emit_fill)),
    AddLoweringRule(rule("ring_load", emit_ring_load)),
    AddLoweringRule(rule("ring_next", emit_next)),
    AddLoweringRule(rule("ring_wait", emit_wait)),
    AddLoweringRule(rule("ring_tile", emit_ring_tile)),
    AddLoweringRule({.name = "ring_read", .emit = emit_ring_read, .grouped = true, .divides_loops = true}),
    AddLoweringRule(rule("ring_row", emit_ring_row)),
    AddLoweringRule(rule("ring_free", emit_free)),
    AddLoweringRule(rule("ring_drain", emit_drain)),
    AddLoweringRule(rule("ring_release", emit_release)),
    AddLoweringRule(rule("mma_retire", emit_mma_retire)),
    AddLoweringRule(rule("put_shared", emit_put_shared)),
    AddLoweringRule(rule("undefined", emit_undefined)),
    AddLoweringRule(rule("store_async", emit_store_async)),
    AddLoweringRule(rule("store_wait", emit_store_wait)),
    AddLoweringRule(
        {.name = "zero_unless", .emit = emit_zero_unless, .relate = relate_zero_unless, .grouped = true}),
    AddLoweringRule({.name = "mma_issue", .emit = emit_mma_issue, .relate = relate_issue, .grouped = true}),
    AddLoweringRule({.name = "mma_await", .emit = emit_mma_await, .relate = same_layout, .grouped = true}),
};

}  // namespace
}  // namespace tile::cuda
