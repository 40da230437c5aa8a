// The tensor cores and the instructions that load their operands. The emulator replaces this file.
#pragma once
#include "cuda/device/types.cuh"

namespace tile {

// Loads four matrices of 8 x 8 elements of 16 bits: lane l gives the address of row l % 8 of matrix l / 8.
// `transposed` transposes each.
template <bool transposed>
TILE void load_matrices(u32 (&to)[4], SharedAddress row, int) {
  if (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}
// Loads a word of a fragment that ldmatrix does not support.
TILE void load_word(u32& to, SharedAddress at, int) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(to) : "r"(at) : "memory");
}
TILE void load_word(f64& to, SharedAddress at, int) {
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(to) : "r"(at) : "memory");
}
// Loads 16 bytes.
TILE void load_words(u32* to, SharedAddress at, int) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
}
// Selects bytes 0 and 2, or 1 and 3, of two words.
template <bool odd>
TILE u32 every_second_byte(u32 low, u32 high) {
  return __byte_perm(low, high, odd ? 0x7531 : 0x6420);
}
// float32 to tf32, to nearest even.
TILE u32 bits_of_tf32(u32 x) {
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(x) : "f"(__uint_as_float(x)));
  return x;
#else
  return (x & 0x7fffffffu) > 0x7f800000u ? x : (x + 0xfffu + (x >> 13 & 1)) & 0xffffe000u;
#endif
}

// A warp computes sums += left * right for a block of 16 x 8. A row of `left` or a column of `right` has 8
// words, of 4 bytes or f64. A thread has words lane % 4 and lane % 4 + 4: of rows lane / 4 and lane / 4 + 8
// of `left`, and of column lane / 4 of `right`. Its sums are those of columns lane % 4 * 2 and the next in
// both rows; they are `apart` elements apart in memory.
template <class X, class Y, class Sum, class Word>
TILE void multiply_block(Sum* sums, int apart, const Word (&left)[4], Word right0, Word right1);
#define TILE_MMA(X, Y, SUM, CONSTRAINT, NAME)                                                          \
  template <>                                                                                          \
  TILE void multiply_block<X, Y>(SUM * sums, int apart, const u32(&left)[4], u32 right0, u32 right1) { \
    asm("mma.sync.aligned." NAME " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"    \
        : "+" CONSTRAINT(sums[0]), "+" CONSTRAINT(sums[apart]), "+" CONSTRAINT(sums[2 * apart]),       \
          "+" CONSTRAINT(sums[3 * apart])                                                              \
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));           \
  }
TILE_MMA(bf16, bf16, f32, "f", "m16n8k16.row.col.f32.bf16.bf16.f32")
TILE_MMA(f16, f16, f32, "f", "m16n8k16.row.col.f32.f16.f16.f32")
TILE_MMA(tf32, tf32, f32, "f", "m16n8k8.row.col.f32.tf32.tf32.f32")
TILE_MMA(i8, i8, i32, "r", "m16n8k32.row.col.s32.s8.s8.s32")
TILE_MMA(i8, u8, i32, "r", "m16n8k32.row.col.s32.s8.u8.s32")
TILE_MMA(u8, i8, i32, "r", "m16n8k32.row.col.s32.u8.s8.s32")
TILE_MMA(u8, u8, i32, "r", "m16n8k32.row.col.s32.u8.u8.s32")
#if __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
TILE_MMA(f8e4m3, f8e4m3, f32, "f", "m16n8k32.row.col.f32.e4m3.e4m3.f32")
TILE_MMA(f8e4m3, f8e5m2, f32, "f", "m16n8k32.row.col.f32.e4m3.e5m2.f32")
TILE_MMA(f8e5m2, f8e4m3, f32, "f", "m16n8k32.row.col.f32.e5m2.e4m3.f32")
TILE_MMA(f8e5m2, f8e5m2, f32, "f", "m16n8k32.row.col.f32.e5m2.e5m2.f32")
#elif __CUDA_ARCH__ >= 890
// mma.sync multiplies 8-bit floats as f16 on these chips. ptxas converts them early, so that registers spill;
// here they are converted where they are multiplied. Elements 0 and 1 of a word take the position of f16 word
// lane % 4, and elements 2 and 3 that of word lane % 4 + 4. This permutes k in the same way for both
// operands.
template <class T>
TILE void halves(u32 (&to)[2], u32 x);
#define TILE_HALVES(T, NAME)                                                                               \
  template <>                                                                                              \
  TILE void halves<T>(u32(&to)[2], u32 x) {                                                                \
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2." NAME " %0, low; cvt.rn.f16x2." NAME \
        " %1, high; }"                                                                                     \
        : "=r"(to[0]), "=r"(to[1])                                                                         \
        : "r"(x));                                                                                         \
  }
TILE_HALVES(f8e4m3, "e4m3x2")
TILE_HALVES(f8e5m2, "e5m2x2")
#undef TILE_HALVES
template <class X, class Y>
TILE void multiply_halves(f32* sums, int apart, const u32 (&left)[4], u32 right0, u32 right1) {
  TILE_UNROLL
  for (int i = 0; i < 2; ++i) {
    u32 upper[2], lower[2], right[2];
    halves<X>(upper, left[2 * i]);
    halves<X>(lower, left[2 * i + 1]);
    halves<Y>(right, i ? right1 : right0);
    const u32 words[4] = {upper[0], lower[0], upper[1], lower[1]};
    multiply_block<f16, f16>(sums, apart, words, right[0], right[1]);
  }
}
#define TILE_MMA_HALVES(X, Y)                                                                          \
  template <>                                                                                          \
  TILE void multiply_block<X, Y>(f32 * sums, int apart, const u32(&left)[4], u32 right0, u32 right1) { \
    multiply_halves<X, Y>(sums, apart, left, right0, right1);                                          \
  }
TILE_MMA_HALVES(f8e4m3, f8e4m3)
TILE_MMA_HALVES(f8e4m3, f8e5m2)
TILE_MMA_HALVES(f8e5m2, f8e4m3)
TILE_MMA_HALVES(f8e5m2, f8e5m2)
#undef TILE_MMA_HALVES
#endif
#undef TILE_MMA
// `volatile` keeps the order. Otherwise NVRTC 13.0 ends a loop's iteration with the accumulator that the next
// one begins with, and an H200 then computed wrong sums.
template <>
TILE void multiply_block<f64, f64>(f64* sums, int apart, const f64 (&left)[4], f64 right0, f64 right1) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+d"(sums[0]), "+d"(sums[apart]), "+d"(sums[2 * apart]), "+d"(sums[3 * apart])
      : "d"(left[0]), "d"(left[1]), "d"(left[2]), "d"(left[3]), "d"(right0), "d"(right1));
#else
  // Multiplies blocks of 8 x 8, 4 deep.
  TILE_UNROLL
  for (int i = 0; i < 4; ++i)
    asm volatile(
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(sums[i % 2 * 2 * apart]), "+d"(sums[(i % 2 * 2 + 1) * apart])
        : "d"(left[i]), "d"(i < 2 ? right0 : right1));
#endif
}

}  // namespace tile
