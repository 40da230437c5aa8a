// extract and insert: by renaming registers if each thread has its part of every sub-tile, else through
// shared memory.
#include <algorithm>

#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

// Returns the sub-tile's extent along each axis of the tile.
Shape part_of(const Op& op) {
  const Shape& shape = op.is("extract") ? op.results[0]->type.shape : op.type(1).shape;
  return shape.empty() ? Shape(op.type(0).shape.size(), 1) : shape;
}
size_t first_index(const Op& op) { return op.is("extract") ? 1 : 2; }

// Returns the sub-tile's layout if a thread holds the same part of each sub-tile, in separate registers; else
// none.
std::optional<Layout> part_layout(const Layout& layout, const Shape& part) {
  if (layout.padded()) return std::nullopt;
  std::vector<Mode> modes;
  for (Mode mode : layout.modes()) {
    const int64_t extent = part[static_cast<size_t>(mode.axis)];
    if (mode.weight < extent) {
      const bool fits = mode.weight * mode.extent <= extent;
      const auto inner = fits ? mode.extent : static_cast<int>(extent / mode.weight);
      if (!fits && (extent % mode.weight != 0 || mode.extent % inner != 0)) return std::nullopt;
      modes.push_back({mode.level, mode.stride, inner, mode.axis, mode.weight});
      if (fits) continue;
    }
    if (mode.level != Level::reg) return std::nullopt;
  }
  return Layout(part, std::move(modes));
}
// The inverse: returns a tile's layout whose sub-tiles are in separate registers, if they are few.
std::optional<Layout> whole_layout(const Layout& layout, const Shape& whole) {
  constexpr int64_t most = 8;
  if (layout.padded() || layout.rank() != static_cast<int>(whole.size())) return std::nullopt;
  const Shape& part = layout.shape();
  if (element_count(whole) > most * element_count(part)) return std::nullopt;
  std::vector<Mode> modes = layout.modes();
  int stride = layout.registers();
  for (size_t axis = whole.size(); axis-- > 0;) {
    const auto count = static_cast<int>(whole[axis] / part[axis]);
    if (count == 1) continue;
    modes.push_back({Level::reg, stride, count, static_cast<int>(axis), part[axis]});
    stride *= count;
  }
  return Layout(whole, std::move(modes));
}

// For each register of the tile, the sub-tile's number in row-major order and the sub-tile's register.
struct PartMap {
  std::vector<int> of, into;
};
PartMap part_map(const Layout& whole, const Layout& part) {
  Shape counts = whole.shape();
  for (size_t i = 0; i < counts.size(); ++i) counts[i] /= part.shape()[i];
  const Weights numbers = row_major(counts);
  PartMap map;
  for (int r = 0; r < whole.registers(); ++r) {
    int64_t number = 0;
    int s = 0;
    const auto same = [&](int candidate) {
      for (int axis = 0; axis < whole.rank(); ++axis)
        if (part.of_register(axis, candidate) !=
            whole.of_register(axis, r) % part.shape()[static_cast<size_t>(axis)])
          return false;
      return true;
    };
    while (!same(s)) ++s;
    for (int axis = 0; axis < whole.rank(); ++axis) {
      const auto i = static_cast<size_t>(axis);
      number += whole.of_register(axis, r) / part.shape()[i] * numbers[i];
    }
    map.of.push_back(static_cast<int>(number));
    map.into.push_back(s);
  }
  return map;
}
std::string plan_of(Emitter& emitter, const Layout& whole, const Layout& part) {
  const PartMap map = part_map(whole, part);
  return emitter.define_struct(
      "Part", str("  TILE static constexpr int of(int r) { ", map_text(map.of, whole), " }\n",
                  "  TILE static constexpr int into(int r) { ", map_text(map.into, whole), " }\n"));
}
// Returns the registers of one sub-tile, of which the number is known.
std::string registers_text(Emitter& emitter, const Layout& whole, const Layout& part, int64_t number,
                           const std::string& from) {
  const PartMap map = part_map(whole, part);
  std::vector<int> source(static_cast<size_t>(part.registers()), 0);
  for (int r = 0; r < whole.registers(); ++r)
    if (const auto i = static_cast<size_t>(r); map.of[i] == number)
      source[static_cast<size_t>(map.into[i])] = r;
  return str("registers<", emitter.layout(part), ">(", from, ", [](int r) { ", map_text(source, part), " })");
}

// Returns, for each axis, the sub-tile's index ("nearest_index<4>(v3)") or its start.
std::vector<std::string> index_texts(Emitter& emitter, const Op& op, bool starts) {
  const Shape &whole = op.type(0).shape, part = part_of(op);
  std::vector<std::string> texts;
  for (size_t i = 0; i < whole.size(); ++i) {
    const Value* index = op.operands[first_index(op) + i];
    const int64_t count = whole[i] / part[i], scale = starts ? part[i] : 1;
    if (const auto known = constant_of(index))
      texts.push_back(str(std::clamp<int64_t>(known->integer, 0, count - 1) * scale));
    else
      texts.push_back(str("nearest_index<", count, ">(", emitter.name(index), ")",
                          scale == 1 ? std::string() : str(" * ", scale)));
  }
  return texts;
}
Shape counts_of(const Op& op) {
  const Shape part = part_of(op);
  Shape counts = op.type(0).shape;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] /= part[i];
  return counts;
}
// Returns the sub-tile's number in row-major order.
std::string number_text(Emitter& emitter, const Op& op) {
  const Shape counts = counts_of(op);
  const Weights numbers = row_major(counts);
  const std::vector<std::string> texts = index_texts(emitter, op, false);
  std::vector<std::string> sum;
  for (size_t i = 0; i < texts.size(); ++i)
    if (counts[i] > 1) sum.push_back(numbers[i] == 1 ? texts[i] : str(texts[i], " * ", numbers[i]));
  return sum.empty() ? "0" : join(sum, " + ", [](const std::string& text) { return text; });
}
// The same as a number, or none if an index is computed.
std::optional<int64_t> known_number(const Op& op) {
  const Shape counts = counts_of(op);
  const Weights numbers = row_major(counts);
  int64_t sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 1) continue;
    const auto known = constant_of(op.operands[first_index(op) + i]);
    if (!known) return std::nullopt;
    sum += std::clamp<int64_t>(known->integer, 0, counts[i] - 1) * numbers[i];
  }
  return sum;
}
std::string start_texts(Emitter& emitter, const Op& op) {
  return "{" + join(index_texts(emitter, op, true)) + "}";
}

// Allocates memory for elements that a step writes and reads after its barrier.
std::string passing_memory(Emitter& emitter, const Op& op, int64_t bytes) {
  if (bytes <= most_double_bytes) return emitter.double_buffer(op, bytes);
  emitter.need_shared(op, bytes);
  emitter.leave_shared();
  return "shared_memory()";
}
int64_t bytes_of(const Op& op) { return element_count(part_of(op)) * info(op.type(0).dtype).bytes; }
std::string extents_and_weights(const Shape& part) {
  return weights_text(part) + ", " + weights_text(row_major(part));
}

void emit_extract(Emitter& emitter, const Op& op) {
  const Value *x = op.operands[0], *result = op.results[0];
  const char* scalar = result->type.is_scalar() ? ".x[0]" : "";
  if (x->type.is_scalar()) return emitter.result(op, emitter.name(x));
  emitter.need("subtile.cuh");
  const Layout& whole = emitter.layout_of(x);
  const Shape part = part_of(op);
  if (const auto own = part_layout(whole, part)) {
    const auto number = known_number(op);
    std::string text = number ? registers_text(emitter, whole, *own, *number, emitter.name(x)) + scalar
                              : str("extract<", emitter.layout(*own), ", ", plan_of(emitter, whole, *own),
                                    ">(", emitter.name(x), ", ", number_text(emitter, op), ")", scalar);
    if (emitter.configuration().panels_in_turn && op.integer_or("panel", 0) > 0) {
      emitter.need("panels_out.cuh");
      text = str("after_barrier(", text, ", ", line_number(op), ")");
    }
    return emitter.result_in(op, *own, text);
  }
  emitter.scatters(whole);
  const std::string name = emitter.name(x), starts = start_texts(emitter, op),
                    memory = passing_memory(emitter, op, bytes_of(op));
  emitter.result(
      op, str("extract_shared<", emitter.layout(emitter.layout_of(result)), ", ", extents_and_weights(part),
              ">(", name, ", ", starts, ", ", memory, ", ", line_number(op), ")", scalar));
}

void emit_insert(Emitter& emitter, const Op& op) {
  const Value *x = op.operands[0], *value = op.operands[1];
  if (x->type.is_scalar()) return emitter.result(op, emitter.name(value));
  emitter.need("subtile.cuh");
  const Layout& whole = emitter.layout_of(op.results[0]);
  const Shape part = part_of(op);
  const std::string into = emitter.in_layout(op, x, whole);
  if (const auto own = part_layout(whole, part)) {
    const std::string given = emitter.in_layout(op, value, *own);
    return emitter.result(op, str("insert<", plan_of(emitter, whole, *own), ">(", into, ", ", given, ", ",
                                  number_text(emitter, op), ")"));
  }
  const std::string name = emitter.name(value), starts = start_texts(emitter, op);
  if (value->type.is_scalar())
    return emitter.result(op, str("insert_element<", weights_text(part), ">(", into, ", ",
                                  str(value->type.dtype, "(", name, ")"), ", ", starts, ")"));
  emitter.scatters(emitter.layout_of(value));
  const std::string memory = passing_memory(emitter, op, bytes_of(op));
  emitter.result(op, str("insert_shared<", extents_and_weights(part), ">(", into, ", ", name, ", ", starts,
                         ", ", memory, ", ", line_number(op), ")"));
}

std::optional<Layout> relate_parts(const Op& op, const Value* from, const Value* to, const Layout& layout) {
  const Value* part = op.is("extract") ? op.results[0] : op.operands[1];
  if (from == part) return to == part ? std::nullopt : whole_layout(layout, to->type.shape);
  return to == part ? part_layout(layout, part->type.shape) : std::optional(layout);
}

const AddLoweringRule extract_{
    {.name = "extract", .emit = emit_extract, .relate = relate_parts, .across = true, .grouped = true}};
const AddLoweringRule insert_{
    {.name = "insert", .emit = emit_insert, .relate = relate_parts, .across = true}};

}  // namespace
}  // namespace tile::cuda
