// Float instructions with a mode: rounding toward zero, down or up, NaN propagation, flushed subnormals. The
// emulator replaces this file.
#pragma once
#include "cuda/device/types.cuh"

namespace tile {
namespace math {

#define TILE_MODE1(NAME, TYPE, LETTER, TEXT)          \
  TILE TYPE NAME(TYPE x) {                            \
    TYPE y;                                           \
    asm(TEXT " %0, %1;" : "=" LETTER(y) : LETTER(x)); \
    return y;                                         \
  }
#define TILE_MODE2(NAME, TYPE, LETTER, TEXT)                         \
  TILE TYPE NAME(TYPE x, TYPE y) {                                   \
    TYPE z;                                                          \
    asm(TEXT " %0, %1, %2;" : "=" LETTER(z) : LETTER(x), LETTER(y)); \
    return z;                                                        \
  }
#define TILE_MODE3(NAME, TYPE, LETTER, TEXT)                                        \
  TILE TYPE NAME(TYPE x, TYPE y, TYPE z) {                                          \
    TYPE w;                                                                         \
    asm(TEXT " %0, %1, %2, %3;" : "=" LETTER(w) : LETTER(x), LETTER(y), LETTER(z)); \
    return w;                                                                       \
  }
#define TILE_DIRECTED_OF(MODE, TYPE, LETTER)                   \
  TILE_MODE2(add_##MODE, TYPE, LETTER, "add." #MODE "." #TYPE) \
  TILE_MODE2(sub_##MODE, TYPE, LETTER, "sub." #MODE "." #TYPE) \
  TILE_MODE2(mul_##MODE, TYPE, LETTER, "mul." #MODE "." #TYPE) \
  TILE_MODE2(div_##MODE, TYPE, LETTER, "div." #MODE "." #TYPE) \
  TILE_MODE3(fma_##MODE, TYPE, LETTER, "fma." #MODE "." #TYPE) \
  TILE_MODE1(sqrt_##MODE, TYPE, LETTER, "sqrt." #MODE "." #TYPE)
#define TILE_DIRECTED(MODE)                                  \
  TILE_DIRECTED_OF(MODE, f32, "f")                           \
  TILE_DIRECTED_OF(MODE, f64, "d")                           \
  TILE f32 narrow_##MODE(f64 x) {                            \
    f32 y;                                                   \
    asm("cvt." #MODE ".f32.f64 %0, %1;" : "=f"(y) : "d"(x)); \
    return y;                                                \
  }
TILE_DIRECTED(rz)
TILE_DIRECTED(rm)
TILE_DIRECTED(rp)
#undef TILE_DIRECTED
#undef TILE_DIRECTED_OF

TILE_MODE2(min_nan, f32, "f", "min.NaN.f32")
TILE_MODE2(max_nan, f32, "f", "max.NaN.f32")
// Tests bits. Multiplying by 1 with flushing would be fused with a preceding product, which the chip flushes
// before it rounds.
TILE f32 flush_subnormal(f32 x) {
  const u32 bits = bits_of(x);
  return bits & 0x7f800000u ? x : float_from_bits(bits & 0x80000000u);
}
#undef TILE_MODE1
#undef TILE_MODE2
#undef TILE_MODE3

}  // namespace math
}  // namespace tile
