// Arithmetic with directed rounding. AVX-512 instructions encode the rounding mode. Otherwise the control
// register has it; one piece of assembly sets and restores it, so that no other code runs with a changed
// mode.
#pragma once
#include "cpu/vecmath/exact_fma.h"
#include "cpu/vecmath/simd.h"

namespace tile::cpu::TILE_ISA {

#if TILE_VECTOR_BYTES == 64
#define TILE_DIRECTED_CALL(op, ...)                                                         \
  constexpr int mode = static_cast<int>(d) | _MM_FROUND_NO_EXC;                             \
  if constexpr (std::is_same_v<T, float>) return _mm512_##op##_round_ps(__VA_ARGS__, mode); \
  if constexpr (std::is_same_v<T, double>) return _mm512_##op##_round_pd(__VA_ARGS__, mode)
#define TILE_DIRECTED_BINARY(op) TILE_DIRECTED_CALL(op, x.v, y.v)
#define TILE_DIRECTED_UNARY(op) TILE_DIRECTED_CALL(op, x.v)
#else
// No exception traps and no subnormal is flushed; exception flags are discarded.
template <Direction d>
constexpr uint32_t directed_control = 0x1f80 | static_cast<uint32_t>(d) << 13;
#define TILE_DIRECTED_ASM(text, result, ...)                                     \
  uint32_t before;                                                               \
  const uint32_t control = directed_control<d>;                                  \
  asm("stmxcsr %[before]\n\tldmxcsr %[control]\n\t" text "\n\tldmxcsr %[before]" \
      : [r] result, [before] "=&m"(before)                                       \
      : [control] "m"(control), __VA_ARGS__)
#if TILE_VECTOR_BYTES == 32
#define TILE_DIRECTED_LANES(op, lanes) \
  Native<T> r;                         \
  TILE_DIRECTED_ASM("v" #op lanes " %[y], %[x], %[r]", "=x"(r), [x] "x"(x.v), [y] "x"(y.v))
#define TILE_DIRECTED_ROOT(op, lanes) \
  Native<T> r;                        \
  TILE_DIRECTED_ASM("v" #op lanes " %[x], %[r]", "=x"(r), [x] "x"(x.v))
#else
#define TILE_DIRECTED_LANES(op, lanes) \
  Native<T> r = x.v;                   \
  TILE_DIRECTED_ASM(#op lanes " %[y], %[r]", "+&x"(r), [y] "x"(y.v))
#define TILE_DIRECTED_ROOT(op, lanes) \
  Native<T> r;                        \
  TILE_DIRECTED_ASM(#op lanes " %[x], %[r]", "=x"(r), [x] "x"(x.v))
#endif
#define TILE_DIRECTED_BOTH(form, op)        \
  if constexpr (std::is_same_v<T, float>) { \
    form(op, "ps");                         \
    return r;                               \
  } else {                                  \
    form(op, "pd");                         \
    return r;                               \
  }
#define TILE_DIRECTED_BINARY(op) TILE_DIRECTED_BOTH(TILE_DIRECTED_LANES, op)
#define TILE_DIRECTED_UNARY(op) TILE_DIRECTED_BOTH(TILE_DIRECTED_ROOT, op)
#endif

template <Direction d, class T>
TILE_INLINE Vec<T> directed_add(Vec<T> x, Vec<T> y) {
  TILE_DIRECTED_BINARY(add);
}
template <Direction d, class T>
TILE_INLINE Vec<T> directed_sub(Vec<T> x, Vec<T> y) {
  TILE_DIRECTED_BINARY(sub);
}
template <Direction d, class T>
TILE_INLINE Vec<T> directed_mul(Vec<T> x, Vec<T> y) {
  TILE_DIRECTED_BINARY(mul);
}
template <Direction d, class T>
TILE_INLINE Vec<T> directed_div(Vec<T> x, Vec<T> y) {
  TILE_DIRECTED_BINARY(div);
}
template <Direction d, class T>
TILE_INLINE Vec<T> directed_sqrt(Vec<T> x) {
  TILE_DIRECTED_UNARY(sqrt);
}

// Doubles rounded to float precision; they stay doubles.
template <Direction d>
TILE_INLINE Vec<double> directed_to_f32(Vec<double> x) {
#if TILE_VECTOR_BYTES == 64
  return _mm512_cvtps_pd(_mm512_cvt_roundpd_ps(x.v, static_cast<int>(d) | _MM_FROUND_NO_EXC));
#elif TILE_VECTOR_BYTES == 32
  Native<double> r;
  TILE_DIRECTED_ASM("vcvtpd2ps %[x], %x[r]\n\tvcvtps2pd %x[r], %[r]", "=x"(r), [x] "x"(x.v));
  return r;
#else
  Native<double> r;
  TILE_DIRECTED_ASM("cvtpd2ps %[x], %[r]\n\tcvtps2pd %[r], %[r]", "=x"(r), [x] "x"(x.v));
  return r;
#endif
}

template <Direction d, class T>
TILE_INLINE Vec<T> directed_fma(Vec<T> x, Vec<T> y, Vec<T> z) {
#if TILE_VECTOR_BYTES == 64
  TILE_DIRECTED_CALL(fmadd, x.v, y.v, z.v);
#elif TILE_VECTOR_BYTES == 32
  Native<T> r = z.v;
  if constexpr (std::is_same_v<T, float>) {
    TILE_DIRECTED_ASM("vfmadd231ps %[y], %[x], %[r]", "+&x"(r), [x] "x"(x.v), [y] "x"(y.v));
  } else {
    TILE_DIRECTED_ASM("vfmadd231pd %[y], %[x], %[r]", "+&x"(r), [x] "x"(x.v), [y] "x"(y.v));
  }
  return r;
#else
  if constexpr (std::is_same_v<T, float>) {  // the product of two floats is exact as a double
    const auto a = widen(x), b = widen(y), c = widen(z);
    const auto half = [](Vec<double> u, Vec<double> v, Vec<double> w) {
      return directed_to_f32<d>(directed_add<d>(u * v, w));
    };
    return narrow({half(a.low, b.low, c.low), half(a.high, b.high, c.high)});
  } else {
    T a[Vec<T>::lanes], b[Vec<T>::lanes], c[Vec<T>::lanes];
    x.store(a), y.store(b), z.store(c);
    for (int i = 0; i < Vec<T>::lanes; ++i) c[i] = exact_fma(a[i], b[i], c[i], d);
    return Vec<T>::load(c);
  }
#endif
}
#undef TILE_DIRECTED_CALL
#undef TILE_DIRECTED_ASM
#undef TILE_DIRECTED_LANES
#undef TILE_DIRECTED_ROOT
#undef TILE_DIRECTED_BOTH
#undef TILE_DIRECTED_BINARY
#undef TILE_DIRECTED_UNARY

// Rounds floats so that the last `drop` bits are 0: the precision of bf16 or tf32, and of f16 in its normal
// range.
template <Direction d, int drop>
TILE_INLINE Vec<float> directed_round(Vec<float> x) {
  using I = Vec<int32_t>;
  constexpr int32_t low = (1 << drop) - 1;
  I bits = bit_cast<I>(x);
  if constexpr (d != Direction::zero) {
    const Mask<int32_t> away = d == Direction::down ? bits < I(0) : bits >= I(0);
    bits = select(away, bits + I(low), bits);
  }
  return select(is_nan(x), x, bit_cast<Vec<float>>(bits & I(~low)));
}
template <Direction d>
TILE_INLINE Vec<float> directed_to_f16(Vec<float> x) {
  using V = Vec<float>;
  const V size = clear_sign(x), infinity(__builtin_inff());
  const Mask<float> away = d == Direction::zero ? x != x : d == Direction::down ? x < V(0) : x > V(0);
  V r = clear_sign(directed_round<d, 13>(x));
  // Beyond the largest number.
  r = select(r >= V(65536), select(away | (size == infinity), infinity, V(65504)), r);
  // Results that are subnormal in f16: adding and subtracting 0.5 rounds to nearest; one unit is then added
  // or subtracted if that was the wrong direction.
  const V unit(0x1p-24f), near = (size + V(0.5f)) - V(0.5f);
  const V tiny = select(away & (near < size), near + unit, select(~away & (near > size), near - unit, near));
  return with_sign(select(size < V(0x1p-14f), tiny, r), x);
}

// Rounds to nearest, halves away from zero: a midpoint becomes the neighbour with the larger magnitude.
TILE_INLINE Vec<double> away_to_f32(Vec<double> x) {
  const auto low = directed_to_f32<Direction::down>(x), high = directed_to_f32<Direction::up>(x);
  const auto outer = select(x > Vec<double>(0), high, low);
  return select(x - low == high - x, outer, directed_to_f32<Direction::nearest>(x));
}
template <int drop>
TILE_INLINE Vec<float> away_round(Vec<float> x) {
  using I = Vec<int32_t>;
  const I bits = bit_cast<I>(x) + I(1 << (drop - 1));
  return select(is_nan(x), x, bit_cast<Vec<float>>(bits & I(~((1 << drop) - 1))));
}
TILE_INLINE Vec<float> away_to_f16(Vec<float> x) {
  using V = Vec<float>;
  const V size = clear_sign(x), r = clear_sign(away_round<13>(x));
  const V unit(0x1p-24f), near = (size + V(0.5f)) - V(0.5f);
  const V tiny = select(size - near == V(0x1p-25f), near + unit, near);
  return with_sign(select(size < V(0x1p-14f), tiny, select(r >= V(65536), V(__builtin_inff()), r)), x);
}

#define TILE_DIRECTED(mode, d)              \
  template <class V>                        \
  TILE_INLINE V add_##mode(V x, V y) {      \
    return directed_add<d>(x, y);           \
  }                                         \
  template <class V>                        \
  TILE_INLINE V sub_##mode(V x, V y) {      \
    return directed_sub<d>(x, y);           \
  }                                         \
  template <class V>                        \
  TILE_INLINE V mul_##mode(V x, V y) {      \
    return directed_mul<d>(x, y);           \
  }                                         \
  template <class V>                        \
  TILE_INLINE V div_##mode(V x, V y) {      \
    return directed_div<d>(x, y);           \
  }                                         \
  template <class V>                        \
  TILE_INLINE V fma_##mode(V x, V y, V z) { \
    return directed_fma<d>(x, y, z);        \
  }                                         \
  template <class V>                        \
  TILE_INLINE V sqrt_##mode(V x) {          \
    return directed_sqrt<d>(x);             \
  }
TILE_DIRECTED(rz, Direction::zero)
TILE_DIRECTED(rm, Direction::down)
TILE_DIRECTED(rp, Direction::up)
#undef TILE_DIRECTED

}  // namespace tile::cpu::TILE_ISA
