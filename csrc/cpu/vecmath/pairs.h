// Two steps of f32 in one pass, named outer(inner), with the inner step's operands first. In an interpreter,
// a pass costs as much as cheap arithmetic.
#pragma once
#include "cpu/vecmath/convert.h"
#include "cpu/vecmath/exp.h"

namespace tile::cpu::TILE_ISA::pairs {

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
PAIR(SubMul, fma_once(x, y, -z))
PAIR(SubFrom, z - (x + y))
PAIR(SubFromDifference, z - (x - y))
PAIR(SubFromProduct, fnma_once(x, y, z))
#undef PAIR

#define FMA_PAIR(name, expression)                       \
  struct name {                                          \
    template <class V>                                   \
    TILE_INLINE V operator()(V x, V y, V z, V w) const { \
      return expression;                                 \
    }                                                    \
  };
FMA_PAIR(SumTimes, fma_once(x + y, z, w))
FMA_PAIR(DifferenceTimes, fma_once(x - y, z, w))
FMA_PAIR(ProductTimes, fma_once(x* y, z, w))
FMA_PAIR(PlusProduct, fma_once(z, w, x* y))
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
    return Op{}(fma_once(x, y, z));
  }
};

struct OnePlusTanh {
  template <class V>
  TILE_INLINE V operator()(V x) const {
    return one_plus_tanh(x);
  }
};

// F(type, name, operands): sums of 1 and a function that is more accurate when computed together.
#define TILE_ONE_PLUS_PAIRS(F) F(OnePlusTanh, "one_plus(tanh)", 1)
// Pairs of arithmetic ops. The other pairs are OfDifference, "f(sub)", and OfSum, "f(fma)", for unary
// functions that are not a single instruction.
#define TILE_ARITHMETIC_PAIRS(F)       \
  F(MulAdd, "mul(add)", 3)             \
  F(MulSub, "mul(sub)", 3)             \
  F(MulMul, "mul(mul)", 3)             \
  F(AddAdd, "add(add)", 3)             \
  F(AddSub, "add(sub)", 3)             \
  F(SubAdd, "sub(add)", 3)             \
  F(SubSub, "sub(sub)", 3)             \
  F(SubMul, "sub(mul)", 3)             \
  F(SubFrom, "rsub(add)", 3)           \
  F(SubFromDifference, "rsub(sub)", 3) \
  F(SubFromProduct, "rsub(mul)", 3)    \
  F(SumTimes, "fma.0(add)", 4)         \
  F(DifferenceTimes, "fma.0(sub)", 4)  \
  F(ProductTimes, "fma.0(mul)", 4)     \
  F(PlusProduct, "fma.2(mul)", 4)

}  // namespace tile::cpu::TILE_ISA::pairs
