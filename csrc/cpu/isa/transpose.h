// A square block of lanes transposed across registers.
#pragma once
#include "cpu/isa/simd.h"

namespace tile::cpu::TILE_ISA {

template <int n, class T>
TILE_INLINE void interleave(Vec<T> a, Vec<T> b, Vec<T>& low, Vec<T>& high) {
  if constexpr (n == 2) {
    low = __builtin_shufflevector(a.v, b.v, 0, 2);
    high = __builtin_shufflevector(a.v, b.v, 1, 3);
  } else if constexpr (n == 4) {
    low = __builtin_shufflevector(a.v, b.v, 0, 4, 1, 5);
    high = __builtin_shufflevector(a.v, b.v, 2, 6, 3, 7);
  } else if constexpr (n == 8) {
    low = __builtin_shufflevector(a.v, b.v, 0, 8, 1, 9, 2, 10, 3, 11);
    high = __builtin_shufflevector(a.v, b.v, 4, 12, 5, 13, 6, 14, 7, 15);
  } else {
    low = __builtin_shufflevector(a.v, b.v, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    high = __builtin_shufflevector(a.v, b.v, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
}

// m[i][j] becomes m[j][i]; as many vectors as each has lanes.
template <class T>
TILE_INLINE void transpose(Vec<T>* m) {
  constexpr int n = Vec<T>::lanes;
#if TILE_VECTOR_BYTES == 32
  if constexpr (sizeof(T) == 4) {
    // Shuffles inside halves are cheaper than across: transpose the 4x4 quarters, then exchange two of them.
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
      const __m256 x = bit_cast<__m256>(m[i].v), y = bit_cast<__m256>(m[i + 1].v);
      a[i] = _mm256_unpacklo_ps(x, y);
      a[i + 1] = _mm256_unpackhi_ps(x, y);
    }
    for (int i = 0; i < 8; i += 4)
      for (int k = 0; k < 2; ++k) {
        b[i + 2 * k] = _mm256_shuffle_ps(a[i + k], a[i + 2 + k], 0x44);
        b[i + 2 * k + 1] = _mm256_shuffle_ps(a[i + k], a[i + 2 + k], 0xee);
      }
    for (int i = 0; i < 4; ++i) {
      m[i].v = bit_cast<Native<T>>(_mm256_permute2f128_ps(b[i], b[i + 4], 0x20));
      m[i + 4].v = bit_cast<Native<T>>(_mm256_permute2f128_ps(b[i], b[i + 4], 0x31));
    }
    return;
  }
#endif
  // A perfect shuffle of the vectors, log2 n times.
  Vec<T> next[n];
#pragma GCC unroll 4
  for (int width = n; width > 1; width /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) interleave<n>(m[i], m[i + n / 2], next[2 * i], next[2 * i + 1]);
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) m[i] = next[i];
  }
}

}  // namespace tile::cpu::TILE_ISA
