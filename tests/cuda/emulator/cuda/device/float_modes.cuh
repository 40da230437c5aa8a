// Float instructions with a mode, on the host; replaces the file of this name in csrc.
#pragma once
#include <fenv.h>

#include "cuda/device/types.cuh"

namespace tile {
namespace math {

// Defines a function of up to three operands. They are volatile, so that they are read, and the result is
// computed, while the host's rounding mode is set. A volatile parameter does not suffice: inlining drops
// that.
#define TILE_DIRECTED(NAME, MODE, RESULT, T, EXPRESSION) \
  TILE RESULT NAME(T x, T y = 0, T z = 0) {              \
    volatile T a = x, b = y, c = z;                      \
    const int before = fegetround();                     \
    fesetround(MODE);                                    \
    volatile RESULT result = EXPRESSION;                 \
    fesetround(before);                                  \
    return result;                                       \
  }
#define TILE_DIRECTED_OF(SUFFIX, MODE, T, SQRT, FMA)    \
  TILE_DIRECTED(add_##SUFFIX, MODE, T, T, a + b)        \
  TILE_DIRECTED(sub_##SUFFIX, MODE, T, T, a - b)        \
  TILE_DIRECTED(mul_##SUFFIX, MODE, T, T, (a * b))      \
  TILE_DIRECTED(div_##SUFFIX, MODE, T, T, a / b)        \
  TILE_DIRECTED(fma_##SUFFIX, MODE, T, T, FMA(a, b, c)) \
  TILE_DIRECTED(sqrt_##SUFFIX, MODE, T, T, SQRT(a))
#define TILE_DIRECTED_ALL(SUFFIX, MODE)                \
  TILE_DIRECTED_OF(SUFFIX, MODE, f32, ::sqrtf, ::fmaf) \
  TILE_DIRECTED_OF(SUFFIX, MODE, f64, ::sqrt, ::fma)   \
  TILE_DIRECTED(narrow_##SUFFIX, MODE, f32, f64, (f32)a)
TILE_DIRECTED_ALL(rz, FE_TOWARDZERO)
TILE_DIRECTED_ALL(rm, FE_DOWNWARD)
TILE_DIRECTED_ALL(rp, FE_UPWARD)
#undef TILE_DIRECTED
#undef TILE_DIRECTED_OF
#undef TILE_DIRECTED_ALL

TILE f32 min_nan(f32 x, f32 y) { return x != x ? x : y != y ? y : ::fminf(x, y); }
TILE f32 max_nan(f32 x, f32 y) { return x != x ? x : y != y ? y : ::fmaxf(x, y); }
TILE f32 flush_subnormal(f32 x) { return ::fabsf(x) < 0x1p-126f ? ::copysignf(0.0f, x) : x; }

}  // namespace math
}  // namespace tile
