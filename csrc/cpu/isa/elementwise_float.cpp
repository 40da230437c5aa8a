// Elementwise rows of f32 lanes.
#include "cpu/isa/elementwise.h"

namespace tile::cpu::TILE_ISA {

static constexpr Span<ElementwiseRow> lanes[] = {elementwise_span<float>};
extern const Span<Span<ElementwiseRow>> float_rows = {lanes, 1};

}  // namespace tile::cpu::TILE_ISA
