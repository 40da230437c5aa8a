// Elementwise rows of 8- and 16-bit integer lanes.
#include "cpu/isa/elementwise.h"

namespace tile::cpu::TILE_ISA {

static constexpr Span<ElementwiseRow> lanes[] = {elementwise_span<uint8_t>, elementwise_span<int8_t>,
                                                 elementwise_span<int16_t>, elementwise_span<uint16_t>};
extern const Span<Span<ElementwiseRow>> short_rows = {lanes, 4};

}  // namespace tile::cpu::TILE_ISA
