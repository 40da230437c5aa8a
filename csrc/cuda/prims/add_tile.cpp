// add_tile: adds a tile to memory, adjacent elements at once if layout, memory and chip allow it.
#include <algorithm>
#include <numeric>

#include "cuda/access_text.h"
#include "cuda/lowering_rule.h"

namespace tile::cuda {
namespace {

// Returns how many adjacent elements the chip adds at once.
int most_together(const Target& target, DType dtype) {
  if (dtype == DType::f32) return target.arch >= 90 ? 4 : 2;
  return dtype == DType::f16 || (dtype == DType::bf16 && target.arch >= 90) ? 2 : 1;
}

void emit_add_tile(Emitter& emitter, const Op& op) {
  const ArrayFacts facts = emitter.facts(op.operands[0]);
  const Type& type = op.type(1);
  // The array's edge would split vectors if their size did not divide the extent.
  const bool together = facts.unit >= 0 && facts.whole_vectors && !type.is_scalar();
  emitter.need("add_tile.cuh");
  const Layout& layout = emitter.layout_of(op.operands[1]);
  const int width = together
                        ? std::gcd(std::min(vector_width(facts, type.dtype, type.shape, op.integers("steps")),
                                            most_together(emitter.target(), type.dtype)),
                                   layout.vector_along(facts.unit))
                        : 1;
  // A view of rank 0 has one element or none.
  const std::string there =
      op.type(0).array_rank ? "" : str("if (", emitter.name(op.operands[0]), ".size[0]) ");
  emitter.line(op, str(group_text(emitter, layout), there, "add_tile<", emitter.layout(layout), ", ", width,
                       ", ", op.has("in_bounds") ? "in_bounds" : "plain", ">(", emitter.name(op.operands[0]),
                       ", ", start_text(emitter, op, 2), ", ", emitter.in_layout(op, op.operands[1], layout),
                       ", ", line_number(op), ");"));
}

const AddLoweringRule add_tile_{{.name = "add_tile", .emit = emit_add_tile, .grouped = true}};

}  // namespace
}  // namespace tile::cuda
