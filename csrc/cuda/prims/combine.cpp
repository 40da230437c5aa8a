// reduce and scan with a combine region: totals of registers, lanes and warps are combined in the layout's
// order.
#include <algorithm>
#include <bit>

#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"

namespace tile::cuda {
namespace {

// Returns the modes of an axis in order of weight; none if they are not contiguous, because only adjacent
// elements may be combined.
std::optional<std::vector<Mode>> modes_along(const Layout& layout, int axis) {
  std::vector<Mode> modes;
  for (const Mode& mode : layout.modes())
    if (mode.axis == axis) modes.push_back(mode);
  std::sort(modes.begin(), modes.end(), [](const Mode& a, const Mode& b) { return a.weight < b.weight; });
  int64_t weight = 1;
  int blocks = 0;
  for (const Mode& mode : modes) {
    blocks += mode.level == Level::cta;
    if (mode.weight != weight) return std::nullopt;
    weight *= mode.extent;
  }
  if (blocks > 1) return std::nullopt;  // only one exchange is supported
  return modes;
}

// The struct that device/combine.cuh expects, and the shared memory that its steps need.
struct Plan {
  std::string name;
  int64_t slots = 0, cluster_slots = 0;  // of values, in shared memory
  int warp_steps = 0;
};

// Returns the registers of each line's elements, line by line: the register of element 0 plus the offset of
// each element.
std::vector<int> offsets_of(const Layout& layout, const Layout& lines, int axis,
                            const std::vector<Mode>& modes) {
  std::vector<int> offsets{0};
  for (const Mode& mode : modes) {
    if (mode.level != Level::reg) continue;
    const size_t count = offsets.size();
    for (int i = 1; i < mode.extent; ++i)
      for (size_t k = 0; k < count; ++k) offsets.push_back(offsets[k] + i * mode.stride);
  }
  std::vector<int> registers;
  for (int line = 0; line < lines.registers(); ++line) {
    int first = 0;
    const auto starts_line = [&](int r) {
      if (layout.of_register(axis, r) != 0) return false;
      for (int kept = 0; kept < lines.rank(); ++kept)
        if (layout.of_register(kept + (kept >= axis), r) != lines.of_register(kept, line)) return false;
      return true;
    };
    while (!starts_line(first)) ++first;
    for (const int offset : offsets) registers.push_back(first + offset);
  }
  return registers;
}

// Returns how many numbers differ only in these bits.
int64_t count_of(int bits) { return int64_t{1} << std::popcount(static_cast<unsigned>(bits)); }

Plan plan_of(Emitter& emitter, const Layout& layout, int axis) {
  const std::vector<Mode> modes = *modes_along(layout, axis);
  const Layout lines = layout.without({axis});
  const int replicas = layout.replicas(emitter.plan().threads());
  Plan plan;
  const int all_warps = emitter.plan().warps();
  int length = 1, runs = 1, joined = 1, lanes = replicas & 31, warps = replicas >> 5;
  std::vector<std::string> steps;
  size_t next = 0;
  for (; next < modes.size() && modes[next].level == Level::reg; ++next) length *= modes[next].extent;
  for (size_t i = next; i < modes.size(); ++i)
    if (modes[i].level == Level::reg) runs *= modes[i].extent;
  for (; next < modes.size(); ++next) {
    const Mode& mode = modes[next];
    if (mode.level == Level::reg) {
      steps.push_back(str("Registers<", mode.extent, ">"));
      joined *= mode.extent;
      continue;
    }
    const char* step = mode.level == Level::lane ? "Lanes" : mode.level == Level::warp ? "Warps" : "Blocks";
    steps.push_back(str(step, "<", mode.stride, ", ", mode.extent, ">"));
    const int bits = (mode.extent - 1) * mode.stride, totals = lines.registers() * (runs / joined);
    if (mode.level == Level::lane) lanes |= bits;
    if (mode.level == Level::warp) {
      plan.slots = std::max(plan.slots, totals * all_warps * count_of(31 & ~lanes));
      ++plan.warp_steps;
      warps |= bits;
    }
    if (mode.level == Level::cta)
      plan.cluster_slots = totals * mode.extent * count_of((all_warps - 1) & ~warps) * count_of(31 & ~lanes);
  }
  const std::vector<int> registers = offsets_of(layout, lines, axis, modes);
  bool in_order = true;
  for (size_t i = 0; i < registers.size(); ++i) in_order &= registers[i] == static_cast<int>(i);
  plan.name = emitter.define_struct(
      "Along",
      str("  static constexpr int axis = ", axis, ", lines = ", lines.registers(), ", runs = ", runs,
          ", length = ", length, ", replicas = ", replicas, ", all_warps = ", all_warps, ";\n",
          "  TILE static constexpr int at(int i) { ",
          in_order ? "return i;" : str("constexpr int to[] = {", join(registers), "}; return to[i];"), " }\n",
          "  using Joins = Steps<", join(steps), ">;\n"));
  return plan;
}

// Names the values of the tiles' elements: "t5.x", "t5.more.x", …
void name_values(Emitter& emitter, const std::vector<Value*>& arguments, size_t first, size_t count,
                 std::string of) {
  for (size_t i = first; i < first + count; ++i, of += ".more") emitter.define_alias(arguments[i], of + ".x");
}

// Declares the combine region as "const auto t0 = [&](Values<f32>& t1, const Values<f32>& t2) { … };".
std::string declare_function(Emitter& emitter, const Op& op) {
  const std::string function = emitter.temporary(), sum = emitter.temporary(), next = emitter.temporary();
  const std::string type =
      str("Values<", join(op.operands, ", ", [](const Value* value) { return str(value->type.dtype); }), ">");
  const Block& region = op.region();
  const size_t n = op.operands.size();
  name_values(emitter, region.arguments, 0, n, sum);
  name_values(emitter, region.arguments, n, n, next);
  emitter.line(op,
               str("const auto ", function, " = [&](", type, "& ", sum, ", const ", type, "& ", next, ") {"));
  emitter.indent(1);
  emitter.block(region);
  emitter.indent(-1);
  emitter.close(";");
  return function;
}

// Returns the bytes of a slot: values, each as wide as the widest, and a flag.
int64_t slot_bytes(const Op& op) {
  const auto n = static_cast<int64_t>(op.operands.size());
  return n == 1 ? 2 * info(op.type(0).dtype).bytes : 8 * (n + 1);
}

void emit_combine(Emitter& emitter, const Op& op) {
  emitter.need("combine.cuh");
  const auto axis = static_cast<int>(op.integer("axis"));
  const Shape& shape = op.type(0).shape;
  Layout layout = emitter.layout_of(op.operands[0]);
  if (!modes_along(layout, axis)) layout = blocked(shape, axis, 1, emitter.plan().warps());
  std::vector<std::string> tiles;
  for (const Value* operand : op.operands) tiles.push_back(emitter.in_layout(op, operand, layout));
  const std::string function = declare_function(emitter, op);
  const Plan plan = plan_of(emitter, layout, axis);
  constexpr int64_t most_double = 2048;  // small enough for two buffers
  const int64_t bytes = plan.slots * slot_bytes(op);
  const bool double_buffered = plan.warp_steps == 1 && bytes <= most_double;
  if (bytes && !double_buffered) emitter.need_shared(op, bytes);
  std::string memory = double_buffered ? emitter.double_buffer(op, bytes)
                       : bytes         ? "shared_memory()"
                                       : "nullptr";
  if (plan.cluster_slots) memory += ", " + emitter.cluster_memory(op, plan.cluster_slots * slot_bytes(op));
  const bool scan = op.is("scan");
  const std::string ways =
      str(double_buffered ? "true" : "false", ">(", function, ", ", line_number(op), ", {", memory, "}, ");
  const Layout to = scan ? layout : layout.without({axis});
  std::string reduced;
  if (scan) {
    for (size_t i = 0; i < tiles.size(); ++i) {
      const std::string running = emitter.temporary();
      emitter.line(op, str(emitter.type(op.results[i]->type, layout), " ", running, " = ", tiles[i], ";"));
      tiles[i] = running;
    }
    emitter.line(op, str("scan_axis<", plan.name, ", ", op.integer_or("reverse", 0) ? "true" : "false", ", ",
                         ways, join(tiles), ");"));
  } else {
    reduced = emitter.temporary();
    emitter.line(op, str("const auto ", reduced, " = combine_axis<", plan.name, ", ", emitter.layout(to),
                         ", ", ways, join(tiles), ");"));
  }
  for (size_t i = 0; i < tiles.size(); ++i) {
    const Value* result = op.results[i];
    const std::string tile =
        scan ? tiles[i] : str("tile_of<", i, ", ", result->type.dtype, ">(", reduced, ")");
    emitter.result_in(op, result, to, result->type.is_scalar() ? tile + ".x[0]" : tile);
  }
}

std::optional<Layout> relate_combine(const Op& op, const Value* from, const Value* to, const Layout& layout) {
  if (auto same = same_layout(op, from, to, layout)) return same;
  if (std::find(op.operands.begin(), op.operands.end(), from) == op.operands.end()) return std::nullopt;
  return layout.without({op.integer("axis")});
}

const AddLoweringRule reduce_{
    {.name = "reduce", .emit = emit_combine, .relate = relate_combine, .across = true, .exchanges = true}};
const AddLoweringRule scan_{
    {.name = "scan", .emit = emit_combine, .relate = same_layout, .across = true, .exchanges = true}};

}  // namespace
}  // namespace tile::cuda
