// Conversions between masks of any lane width and bool lanes (bytes of 0 or 1).
#pragma once
#include "cpu/vecmath/simd.h"

namespace tile::cpu::TILE_ISA {

// Packs two vectors of all-ones or zero lanes into one with half the lane width: low's lanes, then high's.
template <class T>
TILE_INLINE auto narrow_masks(Mask<T> low, Mask<T> high) {
  using Half = IntOfSize<sizeof(T) / 2>;
  // Signed saturation keeps 0 and -1; a 64-bit lane consists of two equal 32-bit lanes.
#if TILE_VECTOR_BYTES == 64
  const __m512i a = (__m512i)low.v, b = (__m512i)high.v;
  const __m512i packed = sizeof(T) == 2 ? _mm512_packs_epi16(a, b) : _mm512_packs_epi32(a, b);
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return Mask<Half>{(Native<Half>)_mm512_permutexvar_epi64(order, packed)};
#elif TILE_VECTOR_BYTES == 32
  const __m256i a = (__m256i)low.v, b = (__m256i)high.v;
  const __m256i packed = sizeof(T) == 2 ? _mm256_packs_epi16(a, b) : _mm256_packs_epi32(a, b);
  return Mask<Half>{(Native<Half>)_mm256_permute4x64_epi64(packed, 0xd8)};
#else
  const __m128i a = (__m128i)low.v, b = (__m128i)high.v;
  return Mask<Half>{(Native<Half>)(sizeof(T) == 2 ? _mm_packs_epi16(a, b) : _mm_packs_epi32(a, b))};
#endif
}

// Converts sizeof(T) masks, which have as many lanes as a vector has bytes.
template <class T>
TILE_INLINE Vec<uint8_t> to_bytes(const Mask<T>* m) {
  if constexpr (sizeof(T) == 1) {
    return bit_cast<Vec<uint8_t>>(m[0].v) & Vec<uint8_t>(1);
  } else {
    Mask<IntOfSize<sizeof(T) / 2>> half[sizeof(T) / 2];
#pragma GCC unroll 4
    for (unsigned i = 0; i < sizeof(T) / 2; ++i) half[i] = narrow_masks(m[2 * i], m[2 * i + 1]);
    return to_bytes(half);
  }
}

// Loads as many bytes as T has lanes and extends each to a lane.
template <class T>
TILE_INLINE Native<IntOfSize<sizeof(T)>> spread_bytes(const char* p) {
  using Wide = Native<IntOfSize<sizeof(T)>>;
  Native<uint8_t, vector_bytes / sizeof(T)> narrow;
  __builtin_memcpy(&narrow, p, sizeof narrow);
#if TILE_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 2) return (Wide)_mm512_cvtepi8_epi16((__m256i)narrow);
  if constexpr (sizeof(T) == 4) return (Wide)_mm512_cvtepi8_epi32((__m128i)narrow);
  if constexpr (sizeof(T) == 8)
    return (Wide)_mm512_cvtepi8_epi64(_mm_set_epi64x(0, bit_cast<int64_t>(narrow)));
#elif TILE_VECTOR_BYTES == 32
  if constexpr (sizeof(T) == 2) return (Wide)_mm256_cvtepi8_epi16((__m128i)narrow);
  if constexpr (sizeof(T) == 4)
    return (Wide)_mm256_cvtepi8_epi32(_mm_set_epi64x(0, bit_cast<int64_t>(narrow)));
  if constexpr (sizeof(T) == 8)
    return (Wide)_mm256_cvtepi8_epi64(_mm_cvtsi32_si128(bit_cast<int32_t>(narrow)));
#else
  return __builtin_convertvector(narrow, Wide);
#endif
}

// Returns a mask of lanes whose byte is nonzero.
template <class T>
TILE_INLINE Mask<T> from_bytes(const char* p) {
  using I = IntOfSize<sizeof(T)>;
  if constexpr (sizeof(T) == 1)
    return Vec<T>::load(reinterpret_cast<const T*>(p)) != Vec<T>(T(0));
  else
    return mask_cast<T>(Vec<I>(spread_bytes<T>(p)) != Vec<I>(I(0)));
}

}  // namespace tile::cpu::TILE_ISA
