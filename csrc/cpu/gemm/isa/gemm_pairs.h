// Vectors of pairs of bf16 along k, the operands of AVX-512's and AMX's bf16 products. An f32 source holds
// bf16 values, so nothing is rounded.
#pragma once
#include "cpu/vecmath/half.h"

namespace tile::cpu::TILE_ISA {

// The bf16 of k in the lower half, and that of k + 1 in the upper half.
using Bf16Pair = uint32_t;

// Returns a mask of the first n of `count`, or of all.
template <int count>
TILE_INLINE uint32_t first_of(long n) {
  constexpr uint32_t all = 0xffffffffu >> (32 - count);
  return n >= count ? all : (1u << n) - 1;
}

// Returns the bits of the first n of a vector of values, each in the lower half of its lane.
TILE_INLINE Vec<Bf16Pair> bits_of(const bf16* p, long n) {
  const auto some = static_cast<__mmask16>(first_of<16>(n));
  return (Native<Bf16Pair>)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, p));
}
TILE_INLINE Vec<Bf16Pair> bits_of(const float* p, long n) {
  return bit_cast<Vec<Bf16Pair>>(n >= Vec<float>::lanes ? Vec<float>::load(p) : Vec<float>::load(p, n)) >> 16;
}
TILE_INLINE Bf16Pair bits_of(bf16 x) { return __builtin_bit_cast(uint16_t, x); }
TILE_INLINE Bf16Pair bits_of(float x) { return __builtin_bit_cast(uint32_t, x) >> 16; }

TILE_INLINE Vec<Bf16Pair> pair(Vec<Bf16Pair> first, Vec<Bf16Pair> second) { return first | second << 16; }

// Loads a vector of pairs from `left` > 0 contiguous values.
TILE_INLINE Vec<Bf16Pair> pairs_of(const bf16* p, long left) {
  return (Native<Bf16Pair>)_mm512_maskz_loadu_epi16(first_of<32>(left), p);
}
TILE_INLINE Vec<Bf16Pair> pairs_of(const float* p, long left) {
  constexpr int lanes = Vec<float>::lanes;
  const auto some = [&](long from) __attribute__((always_inline)) {
    const long n = left - from;
    return n <= 0 ? Vec<float>(0.f) : n >= lanes ? Vec<float>::load(p + from) : Vec<float>::load(p + from, n);
  };
  Native<uint16_t> upper;  // the upper half of each lane of both
#pragma GCC unroll 32
  for (int i = 0; i < 2 * lanes; ++i) upper[i] = static_cast<uint16_t>(2 * i + 1);
  return (Native<Bf16Pair>)_mm512_permutex2var_epi16((__m512i)some(0).v, (__m512i)upper,
                                                     (__m512i)some(lanes).v);
}

}  // namespace tile::cpu::TILE_ISA
