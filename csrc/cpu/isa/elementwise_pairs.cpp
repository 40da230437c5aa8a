// Pairs of arithmetic. Those of a function stand with the function, in its family.
#include "cpu/isa/pairs.h"

#include "cpu/isa/elementwise.h"

namespace tile::cpu::TILE_ISA {
namespace {

using namespace pairs;

template <class Op, int arity>
constexpr ElementwiseRow pair(std::string_view name) {
  return row<vector_group<Op, float, arity, 2>>(name, Lane::f32);
}

constexpr ElementwiseRow rows[] = {
#define PAIR(type, name, operands) pair<type, operands>(name),
    TILE_ARITHMETIC_PAIRS(PAIR)
#undef PAIR
};
constexpr Span<ElementwiseRow> lanes[] = {{rows, sizeof(rows) / sizeof(rows[0])}};

}  // namespace

extern const Span<Span<ElementwiseRow>> arithmetic_pair_rows = {lanes, 1};

}  // namespace tile::cpu::TILE_ISA
