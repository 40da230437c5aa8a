// gather_rows and scatter_rows, in vectors if the array's unit axis is not the axis of the rows; load_offset
// and store_offset.
#include "cuda/access_text.h"
#include "cuda/lowering_rule.h"
#include "cuda/pipeline.h"

namespace tile::cuda {
namespace {

bool gathers(const Op& op) { return !op.results.empty(); }
const Value* tile_of(const Op& op) { return gathers(op) ? op.results[0] : op.operands[1]; }
size_t rows_operand(const Op& op) { return gathers(op) ? 1 : 2; }
std::vector<int64_t> other_axes(const Op& op) {
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < tile_of(op)->type.rank(); ++axis)
    if (axis != op.integer("axis")) axes.push_back(axis);
  return axes;
}

int width_of(const ArrayFacts& facts, const Op& op, const Layout& layout) {
  if (facts.unit == op.integer("axis")) return 1;
  return access_width(facts, tile_of(op)->type, op.integers("steps"), layout);
}

// Returns the tile's starts; along the axis of the rows it is 0, since the row indices are absolute.
std::string starts_of(Emitter& emitter, const Op& op) {
  const ArrayFacts facts = emitter.facts(op.operands[0]);
  std::vector<std::string> starts;
  size_t next = rows_operand(op) + 1;
  for (const int64_t axis : other_axes(op))
    starts.push_back(axis_start_text(emitter, facts, op.operands[next++],
                                     op.integers("steps")[static_cast<size_t>(axis)]));
  starts.insert(starts.begin() + op.integer("axis"), "0");
  return "{" + join(starts) + "}";
}

// Maps each register of the tile to the register of its row index.
std::string plan_of(Emitter& emitter, const Op& op, const Layout& layout, const Layout& rows) {
  const auto axis = static_cast<int>(op.integer("axis"));
  std::vector<int> of;
  for (int r = 0; r < layout.registers(); ++r) {
    int s = 0;
    while (rows.of_register(0, s) != layout.of_register(axis, r)) ++s;
    of.push_back(s);
  }
  return emitter.define_struct(
      "Rows", str("  static constexpr int along = ", axis, ";\n", "  TILE static constexpr int of(int r) { ",
                  map_text(of, layout), " }\n"));
}

void emit_rows(Emitter& emitter, const Op& op) {
  if (const Staged* staged = emitter.staging().of(op)) return emit_staged_load(emitter, *staged);
  emitter.need("rows.cuh");
  const Layout layout = emitter.plan().access(op), rows = layout.without(other_axes(op));
  const ArrayFacts facts = emitter.facts(op.operands[0]);
  const std::string tile = gathers(op) ? std::string() : emitter.in_layout(op, op.operands[1], layout),
                    at = emitter.in_layout(op, op.operands[rows_operand(op)], rows),
                    starts = starts_of(emitter, op), array = emitter.name(op.operands[0]),
                    plan = plan_of(emitter, op, layout, rows);
  const std::string ways = str(width_of(facts, op, layout), ", ", flags_text(op, facts), ", ", plan, ">(",
                               array, ", ", starts, ", ");
  if (gathers(op))
    return emitter.result_in(op, layout,
                             str("gather_rows<", emitter.layout(layout), ", ", ways, pad_text(op), ", ",
                                 line_number(op), ", ", at, ")"));
  emitter.line(op, str("scatter_rows<", ways, tile, ", ", line_number(op), ", ", at, ");"));
}

}  // namespace

std::string copy_rows_text(Emitter& emitter, const Op& load, const std::string& to,
                           const std::string& wanted) {
  emitter.need("row_copies.cuh");
  const Layout layout = emitter.plan().access(load), rows = layout.without(other_axes(load));
  const std::string at = emitter.in_layout(load, load.operands[rows_operand(load)], rows);
  return str("copy_rows_async<", emitter.layout(layout), ", ",
             flags_text(load, emitter.facts(load.operands[0])), ", ", plan_of(emitter, load, layout, rows),
             ">(", to, ", ", emitter.name(load.operands[0]), ", ", starts_of(emitter, load), ", ", wanted,
             ", ", line_number(load), ", ", at, ");");
}

namespace {

std::optional<Layout> relate_rows(const Op& op, const Value* from, const Value* to, const Layout& layout) {
  if (from != tile_of(op) || to != op.operands[rows_operand(op)]) return std::nullopt;
  return layout.without(other_axes(op));
}

void emit_offset(Emitter& emitter, const Op& op) {
  emitter.need("rows.cuh");
  const size_t first = rows_operand(op);
  const Layout& layout = emitter.layout_of(tile_of(op));
  const std::string mask = mask_text(emitter, op, first + 1, layout),
                    offset = emitter.in_layout(op, op.operands[first], layout),
                    array = emitter.name(op.operands[0]);
  if (!gathers(op))
    return emitter.line(op, str("store_offset(", array, ", ", emitter.in_layout(op, op.operands[1], layout),
                                ", ", line_number(op), ", ", mask, ", ", offset, ");"));
  emitter.result(op, str("load_offset<", flags_text(op, emitter.facts(op.operands[0])), ", ",
                         emitter.layout(layout), ">(", array, ", ", pad_text(op), ", ", line_number(op), ", ",
                         mask, ", ", offset, ")", op.results[0]->type.is_scalar() ? ".x[0]" : ""));
}

const AddLoweringRule gather_rows_{
    {.name = "gather_rows", .emit = emit_rows, .relate = relate_rows, .across = true, .accessed = tile_of}};
const AddLoweringRule scatter_rows_{
    {.name = "scatter_rows", .emit = emit_rows, .relate = relate_rows, .across = true, .accessed = tile_of}};
const AddLoweringRule load_offset_{
    {.name = "load_offset", .emit = emit_offset, .relate = relate_elements, .across = true}};
const AddLoweringRule store_offset_{
    {.name = "store_offset", .emit = emit_offset, .relate = relate_elements, .across = true}};

}  // namespace
}  // namespace tile::cuda
