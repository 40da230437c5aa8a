// Partial loads and stores of Vec, and reductions of one Vec to a scalar.
#pragma once
#include "cpu/vecmath/vec.h"

namespace tile::cpu::TILE_ISA {

#if TILE_VECTOR_BYTES == 32
// Lanes below n are all ones, for the masked moves of 4- and 8-byte elements.
template <int element_bytes>
TILE_INLINE __m256i first_lanes(long n) {
  if constexpr (element_bytes == 4)
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  else
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
#endif

template <class T>
TILE_INLINE Vec<T> Vec<T>::load(const T* p, long n) {
#if TILE_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4)
    return (Native<T>)_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << n) - 1), p);
  if constexpr (sizeof(T) == 8)
    return (Native<T>)_mm512_maskz_loadu_epi64(static_cast<__mmask8>((1u << n) - 1), p);
#elif TILE_VECTOR_BYTES == 32
  if constexpr (sizeof(T) == 4)
    return (Native<T>)_mm256_maskload_epi32(reinterpret_cast<const int*>(p), first_lanes<4>(n));
  if constexpr (sizeof(T) == 8)
    return (Native<T>)_mm256_maskload_epi64(reinterpret_cast<const long long*>(p), first_lanes<8>(n));
#endif
  Vec r{Native<T>{}};
  __builtin_memcpy(&r.v, p, static_cast<unsigned long>(n) * sizeof(T));
  return r;
}

template <class T>
TILE_INLINE void Vec<T>::store(T* p, long n) const {
#if TILE_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4)
    return _mm512_mask_storeu_epi32(p, static_cast<__mmask16>((1u << n) - 1), (__m512i)v);
  if constexpr (sizeof(T) == 8)
    return _mm512_mask_storeu_epi64(p, static_cast<__mmask8>((1u << n) - 1), (__m512i)v);
#elif TILE_VECTOR_BYTES == 32
  if constexpr (sizeof(T) == 4)
    return _mm256_maskstore_epi32(reinterpret_cast<int*>(p), first_lanes<4>(n), (__m256i)v);
  if constexpr (sizeof(T) == 8)
    return _mm256_maskstore_epi64(reinterpret_cast<long long*>(p), first_lanes<8>(n), (__m256i)v);
#endif
  __builtin_memcpy(p, &v, static_cast<unsigned long>(n) * sizeof(T));
}

// Combines lane i with lane i + lanes/2, then the halves again, in a fixed order.
template <class T, class F>
TILE_INLINE T reduce(Vec<T> x, F combine) {
  T lane[Vec<T>::lanes];
  x.store(lane);
#pragma GCC unroll 8
  for (int width = Vec<T>::lanes / 2; width > 0; width /= 2) {
#pragma GCC unroll 32
    for (int i = 0; i < width; ++i) lane[i] = combine(lane[i], lane[i + width]);
  }
  return lane[0];
}

}  // namespace tile::cpu::TILE_ISA
