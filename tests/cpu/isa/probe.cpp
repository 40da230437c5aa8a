// Fills the table of probe.h for one instruction set.
#include "cpu/isa/probe.h"

#include "cpu/isa/lane.h"
#include "cpu/vecmath/functions.h"
#include "cpu/vecmath/philox.h"
#include "cpu/vecmath/simd.h"

namespace tile::cpu::TILE_ISA {
namespace {

template <class T, class F>
TILE_INLINE void each(const T* x, T* out, long n, F f) {
  constexpr int lanes = Vec<T>::lanes;
  for (long i = 0; i < n; i += lanes) {
    const long m = n - i < lanes ? n - i : lanes;
    if (m == lanes)
      f(Vec<T>::load(x + i)).store(out + i);
    else
      f(Vec<T>::load(x + i, m)).store(out + i, m);
  }
}
template <class T, class F>
TILE_INLINE void each(const T* x, const T* y, T* out, long n, F f) {
  constexpr int lanes = Vec<T>::lanes;
  for (long i = 0; i < n; i += lanes) {
    const long m = n - i < lanes ? n - i : lanes;
    f(Vec<T>::load(x + i, m), Vec<T>::load(y + i, m)).store(out + i, m);
  }
}

#define UNARY(T, f)                                                                                                 \
  {                                                                                                                 \
#f, [](const T* x, T* out, long n) { each(x, out, n, [](auto v) __attribute__((always_inline)) { return f(v); }); } \
  }
#define BINARY(T, f)                                                                                      \
  {                                                                                                       \
#f, [](const T* x, const T* y, T* out, long n) {                                                        \
      each(x, y, out, n, [](auto a, auto b) __attribute__((always_inline)) { return f(a, b); });            \
    } \
  }
#define FUNCTIONS(T)                                                                                    \
  UNARY(T, exp), UNARY(T, exp2), UNARY(T, expm1), UNARY(T, sigmoid), UNARY(T, silu), UNARY(T, log),     \
      UNARY(T, log2), UNARY(T, log1p), UNARY(T, sin), UNARY(T, cos), UNARY(T, tan), UNARY(T, tanh),     \
      UNARY(T, tanh_fast), UNARY(T, one_plus_tanh), UNARY(T, sinh), UNARY(T, cosh), UNARY(T, erf),      \
      UNARY(T, asin), UNARY(T, acos), UNARY(T, atan), UNARY(T, sqrt), UNARY(T, rsqrt), UNARY(T, round), \
      UNARY(T, floor), UNARY(T, ceil), UNARY(T, trunc), UNARY(T, abs)
#define BINARIES(T)                                                                                         \
  BINARY(T, pow), BINARY(T, atan2), BINARY(T, min), BINARY(T, max), BINARY(T, min_nan), BINARY(T, max_nan), \
      BINARY(T, min_number), BINARY(T, max_number)

const UnaryProbe<float> unary_float[] = {FUNCTIONS(float)};
const UnaryProbe<double> unary_double[] = {FUNCTIONS(double)};
const BinaryProbe<float> binary_float[] = {BINARIES(float)};
const BinaryProbe<double> binary_double[] = {BINARIES(double)};

#define OPERATOR(T, name, op)                                                              \
  {                                                                                        \
    name, [](const T* x, const T* y, T* out, long n) {                                     \
      each(                                                                                \
          x, y, out, n, [](auto a, auto b) __attribute__((always_inline)) { return op; }); \
    }                                                                                      \
  }
template <class T>
const BinaryProbe<T> integer_probes[] = {BINARY(T, divide_trunc),
                                         BINARY(T, remainder_trunc),
                                         BINARY(T, divide_floor),
                                         BINARY(T, divide_ceil),
                                         BINARY(T, remainder_floor),
                                         BINARY(T, shift_left),
                                         BINARY(T, shift_right),
                                         BINARY(T, min),
                                         BINARY(T, max),
                                         OPERATOR(T, "add", a + b),
                                         OPERATOR(T, "subtract", a - b),
                                         OPERATOR(T, "multiply", a* b),
                                         OPERATOR(T, "and", a& b),
                                         OPERATOR(T, "or", a | b),
                                         OPERATOR(T, "xor", a ^ b),
                                         OPERATOR(T, "less", to_number(a < b)),
                                         OPERATOR(T, "select", select(a >= b, a, b)),
                                         OPERATOR(T, "abs", abs(a) + (b - b)),
                                         OPERATOR(T, "negative", -a + (b - b))};

template <class From, class To>
void cast_probe(const void* from, void* to, long n) {
  cast_array(static_cast<const From*>(from), static_cast<To*>(to), n);
}
#define CASTS_FROM(name, T)                                                            \
  {name, "bool", cast_probe<T, Bool>}, {name, "i8", cast_probe<T, int8_t>},            \
      {name, "i16", cast_probe<T, int16_t>}, {name, "i32", cast_probe<T, int32_t>},    \
      {name, "i64", cast_probe<T, int64_t>}, {name, "u8", cast_probe<T, uint8_t>},     \
      {name, "u16", cast_probe<T, uint16_t>}, {name, "u32", cast_probe<T, uint32_t>},  \
      {name, "u64", cast_probe<T, uint64_t>}, {name, "f8e4m3", cast_probe<T, f8e4m3>}, \
      {name, "f8e5m2", cast_probe<T, f8e5m2>}, {name, "f16", cast_probe<T, f16>},      \
      {name, "bf16", cast_probe<T, bf16>}, {name, "f32", cast_probe<T, float>}, {      \
    name, "f64", cast_probe<T, double>                                                 \
  }
const CastProbe casts[] = {
    CASTS_FROM("bool", Bool),     CASTS_FROM("i8", int8_t),     CASTS_FROM("i32", int32_t),
    CASTS_FROM("i64", int64_t),   CASTS_FROM("u8", uint8_t),    CASTS_FROM("u64", uint64_t),
    CASTS_FROM("f8e4m3", f8e4m3), CASTS_FROM("f8e5m2", f8e5m2), CASTS_FROM("f16", f16),
    CASTS_FROM("bf16", bf16),     CASTS_FROM("f32", float),     CASTS_FROM("f64", double)};

#define ONE_LANE(f)                                                                 \
  {                                                                                 \
#f, [](const float* x, float* out, long n) {                                      \
      for (long i = 0; i < n; ++i) out[i] = f(lane::Lane<float>(x[i])).v;             \
    } \
  }
const UnaryProbe<float> one_lane[] = {ONE_LANE(exp),  ONE_LANE(exp2), ONE_LANE(expm1), ONE_LANE(sigmoid),
                                      ONE_LANE(log),  ONE_LANE(log2), ONE_LANE(log1p), ONE_LANE(sin),
                                      ONE_LANE(cos),  ONE_LANE(tan),  ONE_LANE(tanh),  ONE_LANE(tanh_fast),
                                      ONE_LANE(sinh), ONE_LANE(cosh), ONE_LANE(erf),   ONE_LANE(asin),
                                      ONE_LANE(acos), ONE_LANE(atan), ONE_LANE(rsqrt)};
#define ONE_LANE_BINARY(f)                                                                               \
  {                                                                                                      \
#f, [](const float* x, const float* y, float* out, long n) {                                           \
      for (long i = 0; i < n; ++i) out[i] = f(lane::Lane<float>(x[i]), lane::Lane<float>(y[i])).v;         \
    } \
  }
const BinaryProbe<float> one_lane_binary[] = {ONE_LANE_BINARY(pow), ONE_LANE_BINARY(atan2)};

template <class T>
void partial(const T* x, T* out, long n) {
  Vec<T>::load(x, n).store(out, n);
}
template <class T, int n>
constexpr List<T> list(const T (&items)[n]) {
  return {items, items + n};
}
double reduce_sum(const double* x) {
  return reduce(Vec<double>::load(x), [](double a, double b) { return a + b; });
}

template <class H>
void rounding(const float* x, float* out, long n) {
  each(x, out, n, [](Vec<float> v) { return round_through<H>(v); });
}

void philox_words(uint64_t seed, uint64_t stream, uint64_t block, uint32_t* words) {
  const PhiloxBlock made = philox(Words(seed), Words(stream), Words(block));
  for (int i = 0; i < Words::lanes; ++i) {
    const uint64_t halves[] = {made.low[i], made.high[i]};
    __builtin_memcpy(words + 4 * i, halves, sizeof halves);
  }
}

}  // namespace

extern const ProbeTable probe_table = {
    vector_bytes,
    list(unary_float),
    list(unary_double),
    list(binary_float),
    list(binary_double),
    list(one_lane),
    list(one_lane_binary),
    list(integer_probes<int8_t>),
    list(integer_probes<int16_t>),
    list(integer_probes<int32_t>),
    list(integer_probes<int64_t>),
    list(integer_probes<uint8_t>),
    list(integer_probes<uint16_t>),
    list(integer_probes<uint32_t>),
    list(integer_probes<uint64_t>),
    list(casts),
    partial<float>,
    partial<double>,
    partial<int16_t>,
    rounding<bf16>,
    rounding<f16>,
    reduce_sum,
    philox_words,
};

}  // namespace tile::cpu::TILE_ISA
