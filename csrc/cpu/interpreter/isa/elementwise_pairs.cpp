// Rows for f32 only: pairs of arithmetic ops, and functions for results that are rounded to 16 bits. Other
// pairs are in the families of their outer functions.
#include "cpu/interpreter/isa/elementwise.h"
#include "cpu/vecmath/approximate.h"
#include "cpu/vecmath/pairs.h"

namespace tile::cpu::TILE_ISA {
namespace {

using namespace pairs;

template <class Op, int arity, int unroll>
constexpr ElementwiseRow f32_row(std::string_view name) {
  return row<vector_group<Op, float, arity, unroll>>(name, Lane::f32);
}

constexpr ElementwiseRow rows[] = {
#define PAIR(type, name, operands) f32_row<type, operands, 2>(name),
    TILE_ARITHMETIC_PAIRS(PAIR)
#undef PAIR
#define LONG(type, name, operands) f32_row<type, operands, 1>(name),
        TILE_ONE_PLUS_PAIRS(LONG) TILE_APPROXIMATE_ROWS(LONG)
#undef LONG
};
constexpr Span<ElementwiseRow> lanes[] = {{rows, sizeof(rows) / sizeof(rows[0])}};

}  // namespace

extern const Span<Span<ElementwiseRow>> pair_and_approximate_rows = {lanes, 1};

}  // namespace tile::cpu::TILE_ISA
