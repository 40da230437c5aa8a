// Vec<T>, a SIMD register of T, and Mask<T>: the types of all code that is compiled per instruction set.
//
// Everything here is in a namespace named after the build (baseline, avx2, avx512), is always inlined and
// calls nothing from a std container. This ensures that code of one instruction set is never emitted under a
// name that another could link to.
#pragma once
#ifndef TILE_ISA
#error "compile with -DTILE_ISA=baseline, avx2 or avx512 (and the matching -m options)"
#endif
// g++ 12 warns about undefined operands inside its own AVX-512 header.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>
#include <type_traits>
#include <utility>

#define TILE_INLINE inline __attribute__((always_inline))

namespace tile::cpu::TILE_ISA {

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define TILE_VECTOR_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define TILE_VECTOR_BYTES 32
#else
#define TILE_VECTOR_BYTES 16
#endif
static constexpr int vector_bytes = TILE_VECTOR_BYTES;
static constexpr bool has_fma = vector_bytes > 16;

template <int bytes>
using IntOfSize = std::conditional_t<
    bytes == 1, int8_t,
    std::conditional_t<bytes == 2, int16_t, std::conditional_t<bytes == 4, int32_t, int64_t>>>;

template <class T, int bytes = vector_bytes>
struct NativeOf {
  typedef T type __attribute__((vector_size(bytes)));
};
template <class T, int bytes = vector_bytes>
using Native = typename NativeOf<T, bytes>::type;

// Each lane is all ones or all zeros.
template <class T>
struct Mask {
  using Bits = Native<IntOfSize<sizeof(T)>>;
  Bits v;

  friend TILE_INLINE Mask operator&(Mask a, Mask b) { return {a.v & b.v}; }
  friend TILE_INLINE Mask operator|(Mask a, Mask b) { return {a.v | b.v}; }
  friend TILE_INLINE Mask operator^(Mask a, Mask b) { return {a.v ^ b.v}; }
  friend TILE_INLINE Mask operator~(Mask a) { return {~a.v}; }
};

template <class T>
struct Vec {
  using Element = T;
  using MaskType = Mask<T>;
  using Bits = Vec<IntOfSize<sizeof(T)>>;  // signed integers of the same width
  static constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));

  Native<T> v;

  Vec() = default;
  TILE_INLINE Vec(Native<T> native) : v(native) {}
  // Splat. Subtracting zero keeps -0; adding a zero vector would not.
  TILE_INLINE explicit Vec(T scalar) : v(scalar - Native<T>{}) {}

  TILE_INLINE T operator[](int lane) const { return v[lane]; }

  // p may have any alignment.
  static TILE_INLINE Vec load(const T* p) {
    Vec r;
    __builtin_memcpy(&r.v, p, vector_bytes);
    return r;
  }
  TILE_INLINE void store(T* p) const { __builtin_memcpy(p, &v, vector_bytes); }
  // The first n lanes (0 <= n <= lanes), the rest zero; memory beyond p + n is not accessed.
  static TILE_INLINE Vec load(const T* p, long n);
  TILE_INLINE void store(T* p, long n) const;
  // 0, 1, 2, …
  static TILE_INLINE Vec iota() {
    Vec r;
    for (int i = 0; i < lanes; ++i) r.v[i] = static_cast<T>(i);
    return r;
  }

  friend TILE_INLINE Vec operator+(Vec a, Vec b) { return a.wrapped() + b.wrapped(); }
  friend TILE_INLINE Vec operator-(Vec a, Vec b) { return a.wrapped() - b.wrapped(); }
  friend TILE_INLINE Vec operator*(Vec a, Vec b) { return a.wrapped() * b.wrapped(); }
  friend TILE_INLINE Vec operator-(Vec a) { return -a.wrapped(); }
  // Floating-point types only; integer.h has integer divisions, which do not trap.
  friend TILE_INLINE Vec operator/(Vec a, Vec b) {
    static_assert(std::is_floating_point_v<T>);
    return a.v / b.v;
  }
  // Integers only; floats need bit_cast.
  friend TILE_INLINE Vec operator&(Vec a, Vec b) { return a.v & b.v; }
  friend TILE_INLINE Vec operator|(Vec a, Vec b) { return a.v | b.v; }
  friend TILE_INLINE Vec operator^(Vec a, Vec b) { return a.v ^ b.v; }
  friend TILE_INLINE Vec operator~(Vec a) { return ~a.v; }
  // Shifts by a constant 0 <= n < width (integer.h has counts per lane). >> of a signed type fills with the
  // sign.
  friend TILE_INLINE Vec operator<<(Vec a, int n) { return a.v << n; }
  friend TILE_INLINE Vec operator>>(Vec a, int n) { return a.v >> n; }

  friend TILE_INLINE MaskType operator<(Vec a, Vec b) { return {(typename MaskType::Bits)(a.v < b.v)}; }
  friend TILE_INLINE MaskType operator<=(Vec a, Vec b) { return {(typename MaskType::Bits)(a.v <= b.v)}; }
  friend TILE_INLINE MaskType operator>(Vec a, Vec b) { return {(typename MaskType::Bits)(a.v > b.v)}; }
  friend TILE_INLINE MaskType operator>=(Vec a, Vec b) { return {(typename MaskType::Bits)(a.v >= b.v)}; }
  friend TILE_INLINE MaskType operator==(Vec a, Vec b) { return {(typename MaskType::Bits)(a.v == b.v)}; }
  friend TILE_INLINE MaskType operator!=(Vec a, Vec b) { return {(typename MaskType::Bits)(a.v != b.v)}; }

 private:
  // Signed overflow wraps: arithmetic uses the unsigned type.
  struct Itself {
    using type = T;
  };
  using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, Itself>::type;
  struct Wrapped {
    Native<Wrapping> v;
    friend TILE_INLINE Vec operator+(Wrapped a, Wrapped b) { return (Native<T>)(a.v + b.v); }
    friend TILE_INLINE Vec operator-(Wrapped a, Wrapped b) { return (Native<T>)(a.v - b.v); }
    friend TILE_INLINE Vec operator*(Wrapped a, Wrapped b) { return (Native<T>)(a.v * b.v); }
    friend TILE_INLINE Vec operator-(Wrapped a) { return (Native<T>)(-a.v); }
  };
  TILE_INLINE Wrapped wrapped() const { return {(Native<Wrapping>)v}; }
};

template <class To, class From>
TILE_INLINE To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To r;
  __builtin_memcpy(&r, &x, sizeof r);
  return r;
}

template <class T>
TILE_INLINE Vec<T> select(Mask<T> m, Vec<T> yes, Vec<T> no) {
#if TILE_VECTOR_BYTES == 32
  if constexpr (std::is_same_v<T, float>) return _mm256_blendv_ps(no.v, yes.v, (__m256)m.v);
  if constexpr (std::is_same_v<T, double>) return _mm256_blendv_pd(no.v, yes.v, (__m256d)m.v);
  if constexpr (std::is_integral_v<T>)
    return (Native<T>)_mm256_blendv_epi8((__m256i)no.v, (__m256i)yes.v, (__m256i)m.v);
#else
  return m.v ? yes.v : no.v;
#endif
}

template <class T>
TILE_INLINE bool any(Mask<T> m) {
#if TILE_VECTOR_BYTES == 64
  return _mm512_test_epi64_mask((__m512i)m.v, (__m512i)m.v) != 0;
#elif TILE_VECTOR_BYTES == 32
  return _mm256_movemask_epi8((__m256i)m.v) != 0;
#else
  return _mm_movemask_epi8((__m128i)m.v) != 0;
#endif
}
template <class T>
TILE_INLINE bool all(Mask<T> m) {
#if TILE_VECTOR_BYTES == 32
  return _mm256_movemask_epi8((__m256i)m.v) == -1;
#else
  return !any(~m);
#endif
}
// The same lanes as a mask of another type with the same width.
template <class To, class From>
TILE_INLINE Mask<To> mask_cast(Mask<From> m) {
  static_assert(sizeof(To) == sizeof(From));
  return {(typename Mask<To>::Bits)m.v};
}
// Converts each lane to 1 or 0, and back (any nonzero lane is true).
template <class T>
TILE_INLINE Vec<T> to_number(Mask<T> m) {
  return select(m, Vec<T>(T(1)), Vec<T>(T(0)));
}
template <class T>
TILE_INLINE Mask<T> to_mask(Vec<T> x) {
  return x != Vec<T>(T(0));
}

// The argument type of the functions in exp.h, trig.h, …: Vec<float>, Vec<double>, or another type that has
// the same operations.
template <class V>
concept FloatVector = std::is_floating_point_v<typename V::Element> && requires {
  typename V::Bits;
};

}  // namespace tile::cpu::TILE_ISA
