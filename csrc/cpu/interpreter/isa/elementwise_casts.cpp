// Rows of casts with directed rounding: lanes of the wider dtype whose values the narrower dtype can
// represent.
#include "cpu/interpreter/isa/elementwise.h"
#include "cpu/vecmath/directed.h"

namespace tile::cpu::TILE_ISA {
namespace {

template <Direction d>
struct ToF32 {
  TILE_INLINE Vec<double> operator()(Vec<double> x) const { return directed_to_f32<d>(x); }
};
struct AwayToF32 {
  TILE_INLINE Vec<double> operator()(Vec<double> x) const { return away_to_f32(x); }
};
struct AwayToF16 {
  TILE_INLINE Vec<float> operator()(Vec<float> x) const { return away_to_f16(x); }
};
struct AwayToTf32 {
  TILE_INLINE Vec<float> operator()(Vec<float> x) const { return away_round<13>(x); }
};
template <Direction d>
struct ToF16 {
  TILE_INLINE Vec<float> operator()(Vec<float> x) const { return directed_to_f16<d>(x); }
};
template <Direction d, int drop>
struct DirectedRound {
  TILE_INLINE Vec<float> operator()(Vec<float> x) const { return directed_round<d, drop>(x); }
};

constexpr ElementwiseRow rows[] = {
#define ROWS(mode, d)                                                               \
  row<vector_group<ToF32<d>, double, 1, 1>>("f32" mode, Lane::f64),                 \
      row<vector_group<ToF16<d>, float, 1, 1>>("f16" mode, Lane::f32),              \
      row<vector_group<DirectedRound<d, 16>, float, 1, 2>>("bf16" mode, Lane::f32), \
      row<vector_group<DirectedRound<d, 13>, float, 1, 2>>("tf32" mode, Lane::f32),
    ROWS("_rz", Direction::zero) ROWS("_rm", Direction::down) ROWS("_rp", Direction::up)
#undef ROWS
        row<vector_group<AwayToF32, double, 1, 1>>("f32_ra", Lane::f64),
    row<vector_group<AwayToF16, float, 1, 1>>("f16_ra", Lane::f32),
    row<vector_group<AwayToTf32, float, 1, 2>>("tf32_ra", Lane::f32),
};
constexpr Span<ElementwiseRow> lanes[] = {{rows, sizeof(rows) / sizeof(rows[0])}};

}  // namespace

extern const Span<Span<ElementwiseRow>> directed_cast_rows = {lanes, 1};

}  // namespace tile::cpu::TILE_ISA
