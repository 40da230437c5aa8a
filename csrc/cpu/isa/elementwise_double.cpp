// Elementwise rows of f64 lanes; the functions run lane by lane.
#include "cpu/isa/elementwise.h"

namespace tile::cpu::TILE_ISA {

static constexpr Span<ElementwiseRow> lanes[] = {elementwise_span<double>};
extern const Span<Span<ElementwiseRow>> double_rows = {lanes, 1};

}  // namespace tile::cpu::TILE_ISA
