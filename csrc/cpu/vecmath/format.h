// The memory format of each dtype: conversions between one element, or a vector of adjacent ones, and lanes.
#pragma once
#include "cpu/vecmath/convert.h"

namespace tile::cpu::TILE_ISA {

// A float with 10 significant bits of mantissa, rounded to nearest even.
struct tf32 {
  float value;
};
TILE_INLINE Vec<float> round_to_tf32(Vec<float> x) {
  using I = Vec<int32_t>;
  const I bits = bit_cast<I>(x), odd = shift_right_zeros(bits, 13) & I(1);
  const I rounded =
      select(mask_cast<int32_t>(is_nan(x)), bits | quiet_if_dropped<13>(bits), bits + I(0xfff) + odd);
  return bit_cast<Vec<float>>(rounded & I(~0x1fff));
}

// Elements equal their lanes: numbers and bool.
template <class M>
struct Format {
  using Lane = Compute<M>;
  static constexpr bool same = true, vectors = sizeof(M) >= 4;
  static TILE_INLINE Lane get(M x) { return bit_cast<Lane>(x); }
  static TILE_INLINE M put(Lane x) { return bit_cast<M>(x); }
  static TILE_INLINE Vec<Lane> load(const M* p) { return Vec<Lane>::load(reinterpret_cast<const Lane*>(p)); }
  static TILE_INLINE void store(M* p, Vec<Lane> x) { x.store(reinterpret_cast<Lane*>(p)); }
  static void load(const M* from, Lane* to, int64_t n) {
    __builtin_memcpy(to, from, static_cast<unsigned long>(n) * sizeof(M));
  }
  static void store(const Lane* from, M* to, int64_t n) {
    __builtin_memcpy(to, from, static_cast<unsigned long>(n) * sizeof(M));
  }
};

// Elements are converted one at a time, unless a specialization below has vector forms.
template <class M>
struct SmallFormat {
  using Lane = float;
  static constexpr bool same = false, vectors = false;
  static TILE_INLINE float get(M x) { return cast<float>(x); }
  static TILE_INLINE M put(float x) { return cast<M>(x); }
  static TILE_INLINE Vec<float> round(Vec<float> x) {
    return map_lanes([](float a) { return cast<float>(cast<M>(a)); }, x);
  }
  static void load(const M* from, float* to, int64_t n) { cast_array(from, to, n); }
  static void store(const float* from, M* to, int64_t n) { cast_array(from, to, n); }
};
template <>
struct Format<f8e4m3> : SmallFormat<f8e4m3> {};
template <>
struct Format<f8e5m2> : SmallFormat<f8e5m2> {};

template <class H>
struct HalfFormat : SmallFormat<H> {
  static constexpr bool vectors = true;
  using SmallFormat<H>::load;
  using SmallFormat<H>::store;
  static TILE_INLINE Vec<float> load(const H* p) { return load_half(p); }
  static TILE_INLINE void store(H* p, Vec<float> x) { store_half(p, x); }
  static TILE_INLINE Vec<float> round(Vec<float> x) { return round_through<H>(x); }
};
template <>
struct Format<bf16> : HalfFormat<bf16> {};
template <>
struct Format<f16> : HalfFormat<f16> {};

template <>
struct Format<tf32> {
  using Lane = float;
  static constexpr bool same = false, vectors = true;
  static TILE_INLINE Vec<float> round(Vec<float> x) { return round_to_tf32(x); }
  static TILE_INLINE float get(tf32 x) { return round(Vec<float>(x.value))[0]; }
  static TILE_INLINE tf32 put(float x) { return {get({x})}; }
  static TILE_INLINE Vec<float> load(const tf32* p) { return round(Vec<float>::load(&p->value)); }
  static TILE_INLINE void store(tf32* p, Vec<float> x) { round(x).store(&p->value); }
  static void copy(const float* from, float* to, int64_t n) {
    constexpr int lanes = Vec<float>::lanes;
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) round(Vec<float>::load(from + i)).store(to + i);
    if (i < n) round(Vec<float>::load(from + i, n - i)).store(to + i, n - i);
  }
  static void load(const tf32* from, float* to, int64_t n) { copy(&from->value, to, n); }
  static void store(const float* from, tf32* to, int64_t n) { copy(from, &to->value, n); }
};

}  // namespace tile::cpu::TILE_ISA
