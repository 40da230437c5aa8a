// bf16 and f16 in memory, float in registers: loads, stores and rounding in place.
// float -> 16 bits rounds to nearest even. A NaN keeps its sign and the high bits of its payload, and becomes
// quiet if payload bits are lost. So a NaN that came from 16 bits goes back unchanged.
#pragma once
#include "cpu/vecmath/integer.h"
#include "cpu/vecmath/vec_memory.h"

namespace tile::cpu::TILE_ISA {

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

// Returns the quiet bit for a NaN with any of its last `count` bits set, else 0.
template <int count, class B>
TILE_INLINE B quiet_if_dropped(B bits) {
  const B low((1 << count) - 1);
  return (((bits & low) + low) & B(1 << count)) << (22 - count);
}
// Returns true if every NaN in the lanes is known to be quiet. Only the traced type tracks this.
template <class V>
TILE_INLINE constexpr bool is_quiet(V) {
  return false;
}

// Returns true if no lane is NaN. The traced type always returns false, because it cannot branch on data.
TILE_INLINE bool no_nan(Vec<float> x) { return all(x == x); }
template <class V>
TILE_INLINE constexpr bool no_nan(V) {
  return false;
}

// The 16-bit pattern of each lane, in the low half of a 32-bit lane, and back.
template <class V>
TILE_INLINE typename V::Bits to_bf16_bits(V x) {
  using B = typename V::Bits;
  const B bits = bit_cast<B>(x), odd = shift_right_zeros(bits, 16) & B(1);
  const B rounded = bits + B(0x7fff) + odd;
  if (rounds_plainly(x) || no_nan(x)) return shift_right_zeros(rounded, 16);
  const B nan = is_quiet(x) ? bits : bits | quiet_if_dropped<16>(bits);
  return shift_right_zeros(select(mask_cast<int32_t>(is_nan(x)), nan, rounded), 16);
}
TILE_INLINE Vec<float> from_bf16_bits(Vec<int32_t> bits) { return bit_cast<Vec<float>>(bits << 16); }

// f16 without F16C. For tiny results an addition shifts the value to the low bits of 0.5.
TILE_INLINE Vec<int32_t> to_f16_bits_portable(Vec<float> x) {
  using I = Vec<int32_t>;
  const I bits = bit_cast<I>(x), magnitude = bits & I(0x7fffffff);
  const I sign = shift_right_zeros(bits, 16) & I(0x8000);
  const I normal = (magnitude - I(112 << 23) + I(0xfff) + ((magnitude >> 13) & I(1))) >> 13;
  const I tiny = bit_cast<I>(bit_cast<Vec<float>>(magnitude) + Vec<float>(0.5f)) - I(0x3f000000);
  const I nan = ((magnitude | quiet_if_dropped<13>(bits)) >> 13 & I(0x3ff)) | I(0x7c00);
  I r = select(magnitude < I(113 << 23), tiny, normal);
  r = select(magnitude > I(0x477fefff), I(0x7c00), r);
  r = select(magnitude > I(0x7f800000), nan, r);
  return r | sign;
}
template <class V = Vec<float>>
TILE_INLINE V from_f16_bits_portable(typename V::Bits bits) {
  using I = typename V::Bits;
  const I magnitude = bits & I(0x7fff), wide = magnitude << 13;
  const I tiny = bit_cast<I>(bit_cast<V>(wide + I(113 << 23)) - V(0x1p-14f));
  I r = select(magnitude < I(0x400), tiny, wide + I(112 << 23));
  r = select(magnitude >= I(0x7c00), wide + I(224 << 23), r);
  return bit_cast<V>(r | ((bits & I(0x8000)) << 16));
}

// Half a register of 16-bit values, as many as the lanes of a Vec<float>.
#if TILE_VECTOR_BYTES == 64
using HalfRegister = __m256i;
TILE_INLINE Vec<int32_t> spread(HalfRegister h) { return (Native<int32_t>)_mm512_cvtepu16_epi32(h); }
TILE_INLINE HalfRegister squeeze(Vec<int32_t> x) { return _mm512_cvtepi32_epi16((__m512i)x.v); }
TILE_INLINE Vec<float> from_f16(HalfRegister h) { return _mm512_cvtph_ps(h); }
TILE_INLINE HalfRegister to_f16(Vec<float> x) { return _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT); }
#elif TILE_VECTOR_BYTES == 32
using HalfRegister = __m128i;
TILE_INLINE Vec<int32_t> spread(HalfRegister h) { return (Native<int32_t>)_mm256_cvtepu16_epi32(h); }
TILE_INLINE HalfRegister squeeze(Vec<int32_t> x) {
  return _mm_packus_epi32(_mm256_castsi256_si128((__m256i)x.v), _mm256_extracti128_si256((__m256i)x.v, 1));
}
TILE_INLINE Vec<float> from_f16(HalfRegister h) { return _mm256_cvtph_ps(h); }
TILE_INLINE HalfRegister to_f16(Vec<float> x) { return _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT); }
#else
typedef uint16_t HalfRegister __attribute__((vector_size(8)));
TILE_INLINE Vec<int32_t> spread(HalfRegister h) {
  const __m128i low = _mm_cvtsi64_si128(bit_cast<int64_t>(h));
  return (Native<int32_t>)_mm_unpacklo_epi16(low, _mm_setzero_si128());
}
TILE_INLINE HalfRegister squeeze(Vec<int32_t> x) { return __builtin_convertvector(x.v, HalfRegister); }
TILE_INLINE Vec<float> from_f16(HalfRegister h) { return from_f16_bits_portable(spread(h)); }
TILE_INLINE HalfRegister to_f16(Vec<float> x) { return squeeze(to_f16_bits_portable(x)); }
#endif
static_assert(sizeof(HalfRegister) * 2 == vector_bytes);

// Values that are only moved must keep their bits. The processor's f16 conversions make every NaN quiet,
// which is acceptable for arithmetic.
enum class For { moves, arithmetic };
template <For use>
TILE_INLINE Vec<float> widen(HalfRegister h, bf16) {
  return from_bf16_bits(spread(h));
}
template <For use>
TILE_INLINE Vec<float> widen(HalfRegister h, f16) {
  const Vec<float> x = from_f16(h);
  return use == For::arithmetic || no_nan(x) ? x : from_f16_bits_portable(spread(h));
}
TILE_INLINE HalfRegister round_to(bf16, Vec<float> x) { return squeeze(to_bf16_bits(x)); }
TILE_INLINE HalfRegister round_to(f16, Vec<float> x) {
  return no_nan(x) ? to_f16(x) : squeeze(to_f16_bits_portable(x));
}

// Loads and stores of Vec<float> from and to H = bf16 or f16 in memory; the forms with n access only n
// elements.
template <For use = For::moves, class H>
TILE_INLINE Vec<float> load_half(const H* p) {
  HalfRegister h;
  __builtin_memcpy(&h, p, sizeof h);
  return widen<use>(h, H{});
}
template <For use = For::moves, class H>
TILE_INLINE Vec<float> load_half(const H* p, long n) {
  HalfRegister h{};
  __builtin_memcpy(&h, p, static_cast<unsigned long>(n) * sizeof(H));
  return widen<use>(h, H{});
}
template <class H>
TILE_INLINE void store_half(H* p, Vec<float> x) {
  const HalfRegister h = round_to(H{}, x);
  __builtin_memcpy(p, &h, sizeof h);
}
template <class H>
TILE_INLINE void store_half(H* p, Vec<float> x, long n) {
  const HalfRegister h = round_to(H{}, x);
  __builtin_memcpy(p, &h, static_cast<unsigned long>(n) * sizeof(H));
}
// Stores two vectors at once: on AVX2 one pack instruction serves both.
template <class H>
TILE_INLINE void store_half_pair(H* p, Vec<float> a, Vec<float> b) {
#if TILE_VECTOR_BYTES == 32
  if constexpr (std::is_same_v<H, bf16>) {
    const __m256i packed = _mm256_packus_epi32((__m256i)to_bf16_bits(a).v, (__m256i)to_bf16_bits(b).v);
    const __m256i ordered = _mm256_permute4x64_epi64(packed, 0xd8);
    __builtin_memcpy(p, &ordered, sizeof ordered);
    return;
  }
#endif
  store_half(p, a);
  store_half(p + Vec<float>::lanes, b);
}

// Rounds floats as a store and a load would.
template <class H>
TILE_INLINE Vec<float> round_through(Vec<float> x) {
  if constexpr (std::is_same_v<H, bf16>)
    return from_bf16_bits(to_bf16_bits(x));
  else
    return from_f16(to_f16(x));
}

// Conversions of one value.
TILE_INLINE float to_float(bf16 x) { return bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
TILE_INLINE bf16 to_bf16(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  if (x != x) return {static_cast<uint16_t>(bits >> 16 | (bits & 0xffff ? 0x40 : 0))};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
TILE_INLINE float to_float(f16 x) {
  return from_f16_bits_portable(Vec<int32_t>(static_cast<int32_t>(x.bits)))[0];
}
TILE_INLINE f16 to_f16(float x) { return {static_cast<uint16_t>(to_f16_bits_portable(Vec<float>(x))[0])}; }

}  // namespace tile::cpu::TILE_ISA
