// Elementwise rows of 32- and 64-bit integer lanes.
#include "cpu/isa/elementwise.h"

namespace tile::cpu::TILE_ISA {

static constexpr Span<ElementwiseRow> lanes[] = {elementwise_span<int32_t>, elementwise_span<int64_t>,
                                                 elementwise_span<uint32_t>, elementwise_span<uint64_t>};
extern const Span<Span<ElementwiseRow>> word_rows = {lanes, 4};

}  // namespace tile::cpu::TILE_ISA
