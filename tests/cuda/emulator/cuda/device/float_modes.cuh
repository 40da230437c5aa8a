// Instructions of floats with a mode, on the host: the file of this name in csrc is for a GPU.
#pragma once
#include <fenv.h>

#include "cuda/device/types.cuh"

namespace tile {
namespace math {

// Volatile: the operands are read, and the result is there, while the host rounds in the direction. An
// inlined parameter that is volatile is not enough.
#define TILE_DIRECTED_BODY(T, MODE, EXPRESSION) \
  volatile decltype(x) a = x, b = y, c = z;     \
  const int before = fegetround();              \
  fesetround(MODE);                             \
  volatile T result = EXPRESSION;               \
  fesetround(before);                           \
  return result;
#define TILE_DIRECTED_OF(NAME, MODE, T, SQRT, FMA)                                                 \
  TILE T fma_##NAME(T x, T y, T z){TILE_DIRECTED_BODY(T, MODE, FMA(a, b, c))} TILE T add_##NAME(   \
      T x, T y, T z = 0){TILE_DIRECTED_BODY(T, MODE, a + b)} TILE T sub_##NAME(T x, T y, T z = 0){ \
      TILE_DIRECTED_BODY(T, MODE, a - b)} TILE T mul_##NAME(T x, T y, T z = 0){                    \
      TILE_DIRECTED_BODY(T, MODE, a * b)} TILE T div_##NAME(T x, T y, T z = 0){                    \
      TILE_DIRECTED_BODY(T, MODE, a / b)} TILE T sqrt_##NAME(T x, T y = 0, T z = 0) {              \
    TILE_DIRECTED_BODY(T, MODE, SQRT(a))                                                           \
  }
#define TILE_DIRECTED(NAME, MODE)                    \
  TILE_DIRECTED_OF(NAME, MODE, f32, ::sqrtf, ::fmaf) \
  TILE_DIRECTED_OF(NAME, MODE, f64, ::sqrt, ::fma)   \
  TILE f32 narrow_##NAME(f64 x, f64 y = 0, f64 z = 0) { TILE_DIRECTED_BODY(f32, MODE, (f32)a) }
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
