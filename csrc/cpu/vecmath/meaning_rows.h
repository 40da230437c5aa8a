// Defines one function object for each row of TILE_ROWS, the file of prims/elementwise that the includer
// names.
#pragma once
#include "cpu/vecmath/meaning.h"

namespace tile::cpu::TILE_ISA::meaning {

#define TILE_ROW1(name, expression)          \
  struct name##_row {                        \
    template <class V>                       \
    TILE_INLINE auto operator()(V x) const { \
      return expression;                     \
    }                                        \
  };
#define TILE_ROW2(name, expression)               \
  struct name##_row {                             \
    template <class V>                            \
    TILE_INLINE auto operator()(V x, V y) const { \
      return expression;                          \
    }                                             \
  };
#define TILE_ROW3(name, expression)                    \
  struct name##_row {                                  \
    template <class V>                                 \
    TILE_INLINE auto operator()(V x, V y, V z) const { \
      return expression;                               \
    }                                                  \
  };
#define UNARY(name, dtypes, expression, ...) TILE_ROW1(name, expression)
#define UNARY_PREDICATE(name, dtypes, expression, ...) TILE_ROW1(name, expression)
#define BINARY(name, dtypes, expression, ...) TILE_ROW2(name, expression)
#define PREDICATE(name, dtypes, expression, ...) TILE_ROW2(name, expression)
#define TERNARY(name, dtypes, expression, ...) TILE_ROW3(name, expression)
#include TILE_ROWS
#include "prims/elementwise/end.def"
#undef TILE_ROW1
#undef TILE_ROW2
#undef TILE_ROW3

}  // namespace tile::cpu::TILE_ISA::meaning
