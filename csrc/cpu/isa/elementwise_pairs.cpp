// Two steps of f32 lanes in one pass, named outer(inner): the inner one's operands come first. An
// interpreter's passes cost as much as cheap arithmetic.
#include "cpu/isa/elementwise.h"

namespace tile::cpu::TILE_ISA {
namespace {

#define PAIR(name, expression)                      \
  struct name {                                     \
    template <class V>                              \
    TILE_INLINE V operator()(V x, V y, V z) const { \
      return expression;                            \
    }                                               \
  };
PAIR(MulAdd, (x + y) * z)
PAIR(MulSub, (x - y) * z)
PAIR(MulMul, x* y* z)
PAIR(AddAdd, x + y + z)
PAIR(AddSub, x - y + z)
PAIR(SubAdd, x + y - z)
PAIR(SubSub, x - y - z)
PAIR(SubMul, fma(x, y, -z))
PAIR(SubFrom, z - (x + y))
PAIR(SubFromDifference, z - (x - y))
PAIR(SubFromProduct, fnma(x, y, z))
#undef PAIR

#define FMA_PAIR(name, expression)                       \
  struct name {                                          \
    template <class V>                                   \
    TILE_INLINE V operator()(V x, V y, V z, V w) const { \
      return expression;                                 \
    }                                                    \
  };
FMA_PAIR(SumTimes, fma(x + y, z, w))
FMA_PAIR(DifferenceTimes, fma(x - y, z, w))
FMA_PAIR(ProductTimes, fma(x* y, z, w))
FMA_PAIR(PlusProduct, fma(z, w, x* y))
#undef FMA_PAIR

template <class Op>
struct OfDifference {
  template <class V>
  TILE_INLINE V operator()(V x, V y) const {
    return Op{}(x - y);
  }
};
template <class Op>
struct OfSum {
  template <class V>
  TILE_INLINE V operator()(V x, V y, V z) const {
    return Op{}(fma(x, y, z));
  }
};

// Of unary functions that are no single instruction.
template <class Op, int arity, bool has>
constexpr ElementwiseRow unary_pair(std::string_view name) {
  if constexpr (has)
    return row<vector_group<Op, float, arity, 1>>(name, Lane::f32);
  else
    return {name, Lane::f32, {}};
}
template <class Op, int arity = 3>
constexpr ElementwiseRow pair(std::string_view name) {
  return row<vector_group<Op, float, arity, 2>>(name, Lane::f32);
}

constexpr ElementwiseRow rows[] = {
    pair<MulAdd>("mul(add)"),
    pair<MulSub>("mul(sub)"),
    pair<MulMul>("mul(mul)"),
    pair<AddAdd>("add(add)"),
    pair<AddSub>("add(sub)"),
    pair<SubAdd>("sub(add)"),
    pair<SubSub>("sub(sub)"),
    pair<SubMul>("sub(mul)"),
    pair<SubFrom>("rsub(add)"),
    pair<SubFromDifference>("rsub(sub)"),
    pair<SubFromProduct>("rsub(mul)"),
    pair<SumTimes, 4>("fma.0(add)"),
    pair<DifferenceTimes, 4>("fma.0(sub)"),
    pair<ProductTimes, 4>("fma.0(mul)"),
    pair<PlusProduct, 4>("fma.2(mul)"),
#define UNARY(name, set, expression, traits, ...)                                     \
  unary_pair<OfDifference<meaning::name##_row>, 2, traits == ROUNDED>(#name "(sub)"), \
      unary_pair<OfSum<meaning::name##_row>, 3, traits == ROUNDED>(#name "(fma)"),
#define TEST(...)
#define BINARY(...)
#define PREDICATE(...)
#define TERNARY(...)
#include "prims/elementwise.def"
#undef UNARY
#undef TEST
#undef BINARY
#undef PREDICATE
#undef TERNARY
};
constexpr Span<ElementwiseRow> lanes[] = {{rows, sizeof(rows) / sizeof(rows[0])}};

}  // namespace

extern const Span<Span<ElementwiseRow>> pair_rows = {lanes, 1};

}  // namespace tile::cpu::TILE_ISA
