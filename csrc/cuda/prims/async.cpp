// The asynchronous ops: one line each. cuda/async/ops.h explains them.
#include "cuda/access_text.h"
#include "cuda/async/plan.h"
#include "cuda/async/wgmma_text.h"
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

// Defines the struct of the queue's slots: each warp of the groups reads them, and the second producer.
void define_queue(Emitter& emitter, bool has_second_producer) {
  const AsyncPlan& plan = plan_of(emitter);
  emitter.need("block_queue.cuh");
  const int warps = plan.groups * AsyncPlan::group_threads / 32;
  emitter.define_struct("Queue", str("  static constexpr int readers = ", warps + has_second_producer,
                                     ", offset = ", plan.queue_offset, ";\n"));
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
    if (plan.draws) emitter.line(op, "BlockQueue queue;");
  };
  for (size_t i = 0; i < plan.rings.size(); ++i) ring_type(emitter, i);
  const bool has_second_producer = op.region(1).ops.size() > 1;
  if (plan.draws) define_queue(emitter, has_second_producer);
  begin_region("if (group == 0) {");
  move_registers("give_registers", plan.producer_registers());
  begin_region(str("if (elected_thread(", line_number(op), ")) {").c_str());
  declare_rings();
  emitter.block(op.region(0));
  end_region();
  if (has_second_producer) {
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

// Returns the coordinates of a tile's first element, in the order of the map. The indices begin at operand
// `first`.
std::vector<std::string> coordinates(Emitter& emitter, const Op& op, size_t first, const TensorMapSpec& map) {
  const std::vector<int64_t>& steps = op.integers("steps");
  const auto name = [&](size_t operand) { return emitter.name(op.operands[first + operand]); };
  std::string slice;
  std::vector<std::string> at;
  for (const int axis : axes_of(map)) {
    const auto of = static_cast<size_t>(axis);
    if (axis == map.sliced) {
      emitter.need("slices.cuh");
      slice = emitter.temporary();
      emitter.line(op, str("const SliceStart ", slice, " = slice_start<", steps[of], ">(dim(",
                           emitter.name(op.operands[0]), ", ", axis, "), ", name(steps.size()), ", ",
                           name(steps.size() + 1), ", ", name(of), ");"));
      at.push_back(slice + ".first");
    } else {
      at.push_back(str("tile_start<", steps[of], ">(", name(of), ")"));
    }
  }
  if (map.sliced >= 0) at.insert(at.end(), {slice + ".end", "slice_extent"});
  return at;
}

// Emits a copy for each panel of the tile. Of a tile that both CTAs of a pair read, each copies half to both:
// half the panels, or half of each panel's rows.
void emit_ring_load(Emitter& emitter, const Op& op) {
  const size_t number = ring_number(op);
  const RingTile& tile = ring_of(emitter, op).tiles[static_cast<size_t>(op.integer("tile"))];
  const SharedLayout& layout = tile.layout;
  const std::string type = ring_type(emitter, number);
  const int unit = emitter.facts(op.operands[0]).unit;
  const bool shared = op.has("shared"), halves_panels = shared && tile.halves_panels(),
             halves_rows = shared && !halves_panels;
  const int64_t copies = halves_panels ? layout.panels() / 2 : layout.panels(), rows = layout.rows / 2;
  const auto is_halved = [&](int axis) {
    return (axis == unit ? halves_panels : halves_rows) && tile.axes[static_cast<size_t>(axis)] >= 0;
  };
  TensorMapSpec spec = tile.map(unit);
  for (size_t axis = 0; axis < spec.box.size(); ++axis)
    if (halves_rows && is_halved(static_cast<int>(axis))) spec.box[axis] = static_cast<int>(rows);
  const std::string map = emitter.tensor_map(spec);
  std::vector<std::string> first = coordinates(emitter, op, 1, spec);
  const std::vector<int> axes = axes_of(spec);
  for (size_t i = 0; i < axes.size(); ++i)
    if (is_halved(axes[i])) first[i] += str(" + half * ", halves_panels ? copies * layout.panel : rows);
  std::string function = "copy_tensor", own_half, receivers;
  if (shared) {
    emitter.need("pairs.cuh");
    function = "copy_tensor_to_cluster";
    own_half = str(" + half * ", halves_panels ? copies * layout.panel_bytes() : layout.panel_bytes() / 2);
    receivers = "both_of_pair, ";
  }
  for (int64_t panel = 0; panel < copies; ++panel) {
    std::vector<std::string> at = first;
    if (panel) at[0] += str(" + ", panel * layout.panel);
    emitter.line(op,
                 str(function, "<", at.size(), ">(stage_address<", type, ">(ring", number, ", memory) + ",
                     tile.offset + panel * layout.panel_bytes(), own_half, ", ", map, ", full_barrier<", type,
                     ">(ring", number, ", memory), {", join(at), "}, ", receivers, line_number(op), ");"));
  }
}

// The tile needs no line: products name its address.
void emit_ring_tile(Emitter&, const Op&) {}

void emit_ring_read(Emitter& emitter, const Op& op) {
  const AsyncPlan& plan = plan_of(emitter);
  const size_t number = ring_number(op);
  const SharedLayout& layout = plan.rings[number].tiles[0].layout;
  const Type& type = op.results[0]->type;
  const bool by_columns = plan.divides_columns(type.shape);
  emitter.need("panels_in.cuh");
  const std::string tile = emitter.define_struct(
      "Read", str("  static constexpr bool by_columns = ", by_columns ? "true" : "false",
                  ", across = ", layout.major == Major::rows ? "true" : "false",
                  ";\n  static constexpr int rows = ", plan.row_blocks,
                  ", columns = ", plan.group_columns(type.shape), ", chunks = ", layout.pitch / 16,
                  ", panel_bytes = ", layout.panel_bytes(), ";\n"));
  const Layout sums = plan.accumulator(type.shape);
  emitter.result_in(op, sums,
                    str("read_stage<", tile, ", ", ring_type(emitter, number), ", ", type.dtype, ", ",
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
// Returns a group's part of an operand that lies in shared memory: its rows, or its columns.
std::string own_part(const AsyncPlan& plan, const WgmmaOperand& operand, int64_t extent) {
  return str(operand.address, plan.groups > 1 ? str(" + (group - 1) * ", operand.block(extent)) : "");
}
void emit_ring_left(Emitter& emitter, const Op& op) {
  const AsyncPlan& plan = plan_of(emitter);
  const size_t number = ring_number(op);
  const RingTile& tile = plan.rings[number].tiles[static_cast<size_t>(op.integer("tile"))];
  const Type& type = op.results[0]->type;
  const WgmmaOperand left{
      &tile.layout, true,
      str("stage_address<", ring_type(emitter, number), ">(ring", number, ", memory) + ", tile.offset)};
  emitter.need("left_operand.cuh");
  const std::string read = emitter.define_struct(
      "Left",
      str("  static constexpr int rows = ", plan.row_blocks, ", steps = ", type.shape[1] / 16,
          ", chunks = ", tile.layout.pitch / 16, ", panel_bytes = ", tile.layout.panel_bytes(), ";\n"));
  const Layout layout = plan.left_operand(type.shape);
  const std::string from = plan.divides_columns(type.shape)
                               ? left.address
                               : own_part(plan, left, int64_t{AsyncPlan::block_rows} * plan.row_blocks);
  emitter.result_in(op, layout,
                    str("read_left<", read, ", ", type.dtype, ", ", emitter.layout(layout), ">(", from, ", ",
                        line_number(op), ")"));
}
void emit_mma_issue(Emitter& emitter, const Op& op) {
  const AsyncPlan& plan = plan_of(emitter);
  const DType dtype = op.type(0).dtype;
  const bool by_columns = plan.divides_columns(op.type(2).shape);
  const int64_t columns = plan.group_columns(op.type(2).shape),
                k = op.type(0).shape[op.integer("left_transposed") ? 0 : 1], step = 32 / info(dtype).bytes;
  const auto steps_of = [&](const WgmmaOperand& operand) {
    std::vector<int64_t> steps;
    for (int64_t at = 0; at < k; at += step) steps.push_back(operand.step(at));
    return steps;
  };
  emitter.need("wgmma.cuh");
  const WgmmaOperand right = operand_of(emitter, op, 1);
  WgmmaProduct product{.columns = columns,
                       .left = dtype,
                       .right = op.type(1).dtype,
                       .right_k_major = right.k_major,
                       .right_steps = steps_of(right),
                       .left_blocks = std::vector<int64_t>(static_cast<size_t>(plan.row_blocks))};
  std::string body =
      str("  using Left = ", dtype, ";\n  using Right = ", op.type(1).dtype, ";\n",
          "  static constexpr int columns = ", columns, ", rows = ", plan.row_blocks, ", steps = ", k / step,
          ";\n", fields_text("right", right), steps_text(product.right_steps, "right_step"));
  std::string function = "mma_issued", left_text;
  if (in_registers(op.operands[0])) {
    function = "mma_issued_from_registers";
    left_text = emitter.in_layout(op, op.operands[0], plan.accumulator(op.type(0).shape));
  } else {
    const WgmmaOperand left = operand_of(emitter, op, 0);
    product.left_k_major = left.k_major, product.left_steps = steps_of(left);
    for (size_t i = 0; i < product.left_blocks.size(); ++i)
      product.left_blocks[i] = left.block(static_cast<int64_t>(i) * AsyncPlan::block_rows);
    body += str(fields_text("left", left), steps_text(product.left_steps, "left_step"),
                steps_text(product.left_blocks, "left_block"));
    left_text =
        by_columns ? left.address : own_part(plan, left, int64_t{AsyncPlan::block_rows} * plan.row_blocks);
    if (op.operands.size() == 5) {
      const Shape& held = op.type(4).shape;
      emitter.need("held_product.cuh");
      function = "mma_issued_with";
      product.held_steps = static_cast<size_t>(held[1] / 16);
      body += str("  static constexpr int held = ", held[1] / 16, ";\n");
      left_text = str(emitter.in_layout(op, op.operands[4], plan.left_operand(held)), ", ", left_text);
    }
  }
  const std::string name = emitter.define_struct("Product", body + wgmma_text(product));
  emitter.result(op, str(function, "<", name, ">(", emitter.name(op.operands[2]), ", ", left_text, ", ",
                         by_columns ? own_part(plan, right, columns) : right.address, ", ",
                         emitter.name(op.operands[3]), ", ", line_number(op), ")"));
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
          ";\n  static constexpr int rows = ", plan.row_blocks, ", columns = ", plan.group_columns(shape),
          ", chunks = ", operand.layout.pitch / 16, ", panel_bytes = ", operand.layout.panel_bytes(),
          ", bytes = ", operand.layout.stage_bytes(), ", offset = ", operand.offset,
          ", threads = ", plan.groups * AsyncPlan::group_threads, ";\n"));
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

// Defines the struct that describes a store through panels; `row` is the rows' place among a map's
// coordinates.
std::string panels_of(Emitter& emitter, const PanelStore& store, int64_t row) {
  const AsyncPlan& plan = plan_of(emitter);
  return emitter.define_struct(
      "Panels", str("  static constexpr int rows = ", plan.row_blocks, ", panels = ", store.layout.panels(),
                    ", columns = ", store.layout.panel, ", chunks = ", store.layout.pitch / 16,
                    ", row = ", row, ", first = ", store.first, ", buffers = ", AsyncPlan::panel_buffers,
                    ", bytes = ", AsyncPlan::panel_bytes, ", offset = ", plan.panels_offset,
                    ";\n  static constexpr bool waits_all = ", store.waits_all ? "true" : "false", ";\n"));
}
void emit_store_async(Emitter& emitter, const Op& op) {
  const AsyncPlan& plan = plan_of(emitter);
  const PanelStore& store = plan.stores[static_cast<size_t>(op.integer("tile"))];
  const int unit = emitter.facts(op.operands[0]).unit;
  emitter.need("panels_out.cuh");
  const TensorMapSpec map = store.map(unit);
  const std::vector<std::string> at = coordinates(emitter, op, 2, map);
  const std::vector<int> axes = axes_of(map);
  const auto rows = static_cast<int>(std::find(store.axes.begin(), store.axes.end(), 0) - store.axes.begin());
  const auto row = std::find(axes.begin(), axes.end(), rows) - axes.begin();
  const std::string panels = panels_of(emitter, store, row);
  const std::string value = emitter.in_layout(op, op.operands[1], plan.accumulator(op.type(1).shape));
  emitter.line(op, str("store_panels<", panels, ">(", value, ", ", emitter.tensor_map(map),
                       ", memory, group, {", join(at), "}, ", line_number(op), ");"));
}
void emit_store_rows(Emitter& emitter, const Op& op) {
  const AsyncPlan& plan = plan_of(emitter);
  const PanelStore& store = plan.stores[static_cast<size_t>(op.integer("tile"))];
  emitter.need("panel_rows.cuh");
  const std::string panels = panels_of(emitter, store, 0);
  const std::string value = emitter.in_layout(op, op.operands[1], plan.accumulator(op.type(1).shape));
  emitter.line(op, str("store_panel_rows<", panels, ">(", value, ", ", emitter.name(op.operands[0]), ", ",
                       start_text(emitter, op, 2), ", memory, group, ", line_number(op), ");"));
}
void emit_store_wait(Emitter& emitter, const Op& op) {
  emitter.line(op, str("wait_for_panels(", line_number(op), ");"));
}

void emit_leave_unless(Emitter& emitter, const Op& op) {
  emitter.line(op, str("if (!", emitter.name(op.operands[0]), ") return;"));
}

const AddGroupedRules grouped_{
    {"roles", emit_roles},           {"ring_fill", emit_fill},        {"ring_load", emit_ring_load},
    {"ring_next", emit_next},        {"ring_wait", emit_wait},        {"ring_tile", emit_ring_tile},
    {"ring_left", emit_ring_left},   {"ring_row", emit_ring_row},     {"ring_free", emit_free},
    {"ring_drain", emit_drain},      {"ring_release", emit_release},  {"mma_retire", emit_mma_retire},
    {"put_shared", emit_put_shared}, {"undefined", emit_undefined},   {"store_async", emit_store_async},
    {"store_rows", emit_store_rows}, {"store_wait", emit_store_wait},
};
const AddLoweringRule rules_[] = {
    AddLoweringRule({.name = "ring_read", .emit = emit_ring_read, .grouped = true, .divides_loops = true}),
    AddLoweringRule({.name = "leave_unless", .emit = emit_leave_unless}),
    AddLoweringRule(
        {.name = "zero_unless", .emit = emit_zero_unless, .relate = relate_zero_unless, .grouped = true}),
    AddLoweringRule({.name = "mma_issue", .emit = emit_mma_issue, .relate = relate_issue, .grouped = true}),
    AddLoweringRule({.name = "mma_await", .emit = emit_mma_await, .relate = same_layout, .grouped = true}),
};

}  // namespace
}  // namespace tile::cuda
