// Transposes of square blocks of registers: lane j of vector i becomes lane i of vector j.
#pragma once
#include "cpu/vecmath/vec.h"

namespace tile::cpu::TILE_ISA {

template <class T, bool high, class Lanes>
struct Interleave;
// a0 b0 a1 b1 … of the low or high halves.
template <class T, bool high, int... lane>
struct Interleave<T, high, std::integer_sequence<int, lane...>> {
  static constexpr int count = sizeof...(lane), first = high ? count / 2 : 0;
  static TILE_INLINE Vec<T> of(Vec<T> a, Vec<T> b) {
#if defined(__clang__)
    return __builtin_shufflevector(a.v, b.v, (first + lane / 2 + (lane % 2) * count)...);
#else
    return __builtin_shuffle(a.v, b.v,
                             Native<IntOfSize<sizeof(T)>>{(first + lane / 2 + (lane % 2) * count)...});
#endif
  }
};
template <bool high, class T>
TILE_INLINE Vec<T> interleave(Vec<T> a, Vec<T> b) {
  return Interleave<T, high, std::make_integer_sequence<int, Vec<T>::lanes>>::of(a, b);
}

template <class T>
TILE_INLINE void transpose(Vec<T> (&r)[Vec<T>::lanes]) {
  constexpr int lanes = Vec<T>::lanes;
#pragma GCC unroll 8
  for (int stage = 1; stage < lanes; stage *= 2) {
    Vec<T> t[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes / 2; ++i) {
      t[2 * i] = interleave<false>(r[i], r[i + lanes / 2]);
      t[2 * i + 1] = interleave<true>(r[i], r[i + lanes / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) r[i] = t[i];
  }
}

#if TILE_VECTOR_BYTES == 32
// Uses 24 shuffles; interleaving across 128-bit halves would need 48.
TILE_INLINE void transpose(Vec<float> (&r)[8]) {
  __m256 pair[8], quad[8];
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    pair[2 * i] = _mm256_unpacklo_ps(r[2 * i].v, r[2 * i + 1].v);
    pair[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i].v, r[2 * i + 1].v);
  }
#pragma GCC unroll 8
  for (int h = 0; h < 8; h += 4) {
    quad[h] = _mm256_shuffle_ps(pair[h], pair[h + 2], 0x44);
    quad[h + 1] = _mm256_shuffle_ps(pair[h], pair[h + 2], 0xee);
    quad[h + 2] = _mm256_shuffle_ps(pair[h + 1], pair[h + 3], 0x44);
    quad[h + 3] = _mm256_shuffle_ps(pair[h + 1], pair[h + 3], 0xee);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    r[i].v = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
    r[i + 4].v = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
  }
}
#endif

}  // namespace tile::cpu::TILE_ISA
