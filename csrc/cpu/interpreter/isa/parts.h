// Declares the tables of this folder's files; interpreter/tables.cpp joins them with those of the families.
#pragma once
#include "cpu/interpreter/tables.h"
#include "cpu/vecmath/isa.h"

namespace tile::cpu {

TILE_DECLARE_ISA_TABLE(Span<Span<ElementwiseRow>>, where_rows);
TILE_DECLARE_ISA_TABLE(Span<Span<ElementwiseRow>>, pair_and_approximate_rows);  // for f32
TILE_DECLARE_ISA_TABLE(Span<Span<ElementwiseRow>>, directed_cast_rows);
TILE_DECLARE_ISA_TABLE(Span<Span<ElementwiseRow>>, random_rows);
TILE_DECLARE_ISA_TABLE(Span<ReduceRow>, reduce_rows);
TILE_DECLARE_ISA_TABLE(Span<MoveRow>, move_rows);
TILE_DECLARE_ISA_TABLE(Span<CastRow>, cast_rows);

}  // namespace tile::cpu
