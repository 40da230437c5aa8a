// add_tile: adds a tile to memory, adjacent elements at once if layout, memory and chip allow it.
#include <algorithm>
#include <numeric>
#include <utility>

#include "cuda/access_text.h"
#include "cuda/async/plan.h"
#include "cuda/lowering_rule.h"

namespace tile::cuda {
namespace {

// Returns true if the chip adds two adjacent elements at once.
bool adds_pairs(const Target& target, DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || (dtype == DType::bf16 && target.arch >= 90);
}

// Returns a layout in which the thread's registers are in the order of their elements in memory.
Layout with_adjacent_registers(const Layout& layout) {
  std::vector<Mode> registers, modes;
  for (const Mode& mode : layout.modes()) (mode.level == Level::reg ? registers : modes).push_back(mode);
  const auto weight = [&](const Mode& mode) {
    return mode.weight * row_major(layout.shape())[static_cast<size_t>(mode.axis)];
  };
  std::stable_sort(registers.begin(), registers.end(),
                   [&](const Mode& a, const Mode& b) { return weight(a) < weight(b); });
  int stride = 1;
  for (size_t i = 0; i < registers.size(); ++i) {
    Mode mode = registers[i];
    while (i + 1 < registers.size() && registers[i + 1].axis == mode.axis &&
           registers[i + 1].weight == mode.weight * mode.extent)
      mode.extent *= registers[++i].extent;
    mode.stride = std::exchange(stride, stride * mode.extent);
    modes.push_back(mode);
  }
  return Layout(layout.shape(), std::move(modes));
}

void emit_add_tile(Emitter& emitter, const Op& op) {
  const ArrayFacts facts = emitter.facts(op.operands[0]);
  const Type& type = op.type(1);
  // The array's edge would split vectors if their size did not divide the extent.
  const bool together =
      facts.unit >= 0 && facts.whole_vectors && adds_pairs(emitter.target(), type.dtype) && !type.is_scalar();
  // Groups that divide columns add while their products run.
  const bool beside_products = emitter.plan().async() && emitter.plan().async()->by_columns &&
                               type.dtype == DType::f32 && !type.is_scalar();
  emitter.need(beside_products ? "predicated_add.cuh" : "add_tile.cuh");
  const int most = beside_products ? 4 : 2;
  const Layout& given = emitter.layout_of(op.operands[1]);
  const Layout layout = beside_products ? with_adjacent_registers(given) : given;
  const int width =
      together ? std::gcd(std::min(vector_width(facts, type.dtype, type.shape, op.integers("steps")), most),
                          layout.vector_along(facts.unit))
               : 1;
  // A view of rank 0 has one element or none.
  const std::string there =
      op.type(0).array_rank ? "" : str("if (", emitter.name(op.operands[0]), ".size[0]) ");
  emitter.line(op, str(there, beside_products ? "add_tile_if_inside<" : "add_tile<", emitter.layout(layout),
                       ", ", width, ", ", op.has("in_bounds") ? "in_bounds" : "plain", ">(",
                       emitter.name(op.operands[0]), ", ", start_text(emitter, op, 2), ", ",
                       emitter.in_layout(op, op.operands[1], layout), ", ", line_number(op), ");"));
}

const AddLoweringRule add_tile_{{.name = "add_tile", .emit = emit_add_tile, .grouped = true}};

}  // namespace
}  // namespace tile::cuda
