// The rows of pairs.h.
#include "cpu/isa/pairs.h"

#include "cpu/isa/elementwise.h"

namespace tile::cpu::TILE_ISA {
namespace {

using namespace pairs;

// Of unary functions that are no single instruction.
template <class Op, int arity, bool has>
constexpr ElementwiseRow unary_pair(std::string_view name) {
  if constexpr (has)
    return row<vector_group<Op, float, arity, 1>>(name, Lane::f32);
  else
    return {name, Lane::f32, {}};
}
template <class Op, int arity>
constexpr ElementwiseRow pair(std::string_view name) {
  return row<vector_group<Op, float, arity, 2>>(name, Lane::f32);
}

constexpr ElementwiseRow rows[] = {
#define PAIR(type, name, operands) pair<type, operands>(name),
    TILE_ARITHMETIC_PAIRS(PAIR)
#undef PAIR
#define UNARY(name, set, expression, traits, ...)                                     \
  unary_pair<OfDifference<meaning::name##_row>, 2, traits == ROUNDED>(#name "(sub)"), \
      unary_pair<OfSum<meaning::name##_row>, 3, traits == ROUNDED>(#name "(fma)"),
#define UNARY_PREDICATE(...)
#define BINARY(...)
#define PREDICATE(...)
#define TERNARY(...)
#include "prims/elementwise.def"
#undef UNARY
#undef UNARY_PREDICATE
#undef BINARY
#undef PREDICATE
#undef TERNARY
};
constexpr Span<ElementwiseRow> lanes[] = {{rows, sizeof(rows) / sizeof(rows[0])}};

}  // namespace

extern const Span<Span<ElementwiseRow>> pair_rows = {lanes, 1};

}  // namespace tile::cpu::TILE_ISA
