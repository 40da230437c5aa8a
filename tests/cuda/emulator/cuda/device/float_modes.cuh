// Instructions of floats with a mode, on the host: the file of this name in csrc is for a GPU.
#pragma once
#include <fenv.h>

#include "cuda/device/types.cuh"

namespace tile {
namespace math {

// Volatile: the values are read, and the result is there, while the host rounds in the direction.
#define TILE_DIRECTED_BODY(MODE, EXPRESSION) \
  const int before = fegetround();           \
  fesetround(MODE);                          \
  volatile auto result = EXPRESSION;         \
  fesetround(before);                        \
  return result;
#define TILE_DIRECTED_OF(NAME, MODE, T, SQRT, FMA)                                                  \
  TILE T add_##NAME(volatile T x, volatile T y){TILE_DIRECTED_BODY(MODE, x + y)} TILE T sub_##NAME( \
      volatile T x, volatile T y){TILE_DIRECTED_BODY(MODE, x - y)} TILE T mul_##NAME(volatile T x,  \
                                                                                     volatile T y){ \
      TILE_DIRECTED_BODY(MODE, x * y)} TILE T div_##NAME(volatile T x, volatile T y){               \
      TILE_DIRECTED_BODY(MODE, x / y)} TILE T fma_##NAME(volatile T x, volatile T y, volatile T z){ \
      TILE_DIRECTED_BODY(MODE, FMA(x, y, z))} TILE T sqrt_##NAME(volatile T x) {                    \
    TILE_DIRECTED_BODY(MODE, SQRT(x))                                                               \
  }
#define TILE_DIRECTED(NAME, MODE)                    \
  TILE_DIRECTED_OF(NAME, MODE, f32, ::sqrtf, ::fmaf) \
  TILE_DIRECTED_OF(NAME, MODE, f64, ::sqrt, ::fma)   \
  TILE f32 narrow_##NAME(volatile f64 x) { TILE_DIRECTED_BODY(MODE, (f32)x) }
TILE_DIRECTED(rz, FE_TOWARDZERO)
TILE_DIRECTED(rm, FE_DOWNWARD)
TILE_DIRECTED(rp, FE_UPWARD)
#undef TILE_DIRECTED
#undef TILE_DIRECTED_OF
#undef TILE_DIRECTED_BODY

TILE f32 min_nan(f32 x, f32 y) { return x != x ? x : y != y ? y : ::fminf(x, y); }
TILE f32 max_nan(f32 x, f32 y) { return x != x ? x : y != y ? y : ::fmaxf(x, y); }
TILE f32 flush_subnormal(f32 x) { return ::fabsf(x) < 0x1p-126f ? ::copysignf(0.0f, x) : x; }

}  // namespace math
}  // namespace tile
