// The tables that the files of csrc/cpu/isa fill; csrc/cpu/tables.cpp joins them.
#pragma once
#include "cpu/isa.h"
#include "cpu/tables.h"

namespace tile::cpu {

TILE_DECLARE_ISA_TABLE(Span<Span<ElementwiseRow>>, float_rows);
TILE_DECLARE_ISA_TABLE(Span<Span<ElementwiseRow>>, double_rows);
TILE_DECLARE_ISA_TABLE(Span<Span<ElementwiseRow>>, word_rows);   // 32 and 64 bits
TILE_DECLARE_ISA_TABLE(Span<Span<ElementwiseRow>>, short_rows);  // 8 and 16 bits
TILE_DECLARE_ISA_TABLE(Span<Span<ElementwiseRow>>, pair_rows);   // of f32
TILE_DECLARE_ISA_TABLE(Span<ReduceRow>, reduce_rows);
TILE_DECLARE_ISA_TABLE(Span<MoveRow>, move_rows);
TILE_DECLARE_ISA_TABLE(Span<CastRow>, cast_rows);

}  // namespace tile::cpu
