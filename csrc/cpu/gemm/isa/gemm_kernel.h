// The micro-kernel: a few rows by a few vectors of C, kept in registers during the loop over k.
#pragma once
#include "cpu/gemm/isa/gemm_panels.h"
#include "cpu/vecmath/convert.h"
#include "cpu/vecmath/vec_memory.h"

namespace tile::cpu::TILE_ISA {

// The type in which products are summed. Floats without an fma use double: rounded products would cost large
// attention scores their last digits.
template <class T>
struct Sum {
  Vec<T> value;
  TILE_INLINE void clear() { value = Vec<T>(T(0)); }
  TILE_INLINE void add(Vec<T> a, Vec<T> b) { value = fma(a, b, value); }
  TILE_INLINE void add(Sum other) { value = value + other.value; }
  TILE_INLINE Vec<T> rounded() const { return value; }
};
struct DoubleSum {
  Pair<Vec<double>> value;
  TILE_INLINE void clear() { value = {Vec<double>(0.), Vec<double>(0.)}; }
  TILE_INLINE void add(Vec<float> a, Vec<float> b) {
    const auto x = widen(a), y = widen(b);
    value = {value.low + x.low * y.low, value.high + x.high * y.high};
  }
  TILE_INLINE void add(DoubleSum other) {
    value = {value.low + other.value.low, value.high + other.value.high};
  }
  TILE_INLINE Vec<float> rounded() const { return narrow(value); }
};

// Accumulators, operands and one broadcast must fit the registers: 16, or 32 with AVX-512.
template <class T>
struct KernelShape {
  static constexpr bool in_double = std::is_same_v<T, float> && !has_fma;
  static constexpr bool emulated = std::is_same_v<T, int64_t> || in_double;  // emulation needs registers too
  using Sum = std::conditional_t<in_double, DoubleSum, TILE_ISA::Sum<T>>;
  using Result = T;                   // of C
  static constexpr int together = 1;  // values of k per element of a panel
  static constexpr int mr = emulated ? 2 : vector_bytes == 64 ? 14 : vector_bytes == 32 ? 6 : 4;
  static constexpr int vectors = 2;
  static constexpr int nr = vectors * Vec<T>::lanes;
};

// C[rows x vectors] (+)= A B. Row r, depth k of A is at a[k mr + r] if packed, else at a[r lda + k]; row k of
// B is at b + k ldb. `last` is the number of columns of the last vector if `partial`. The unroll pragmas keep
// c in registers.
template <class T, int rows, int vectors, bool partial, bool packed>
TILE_INLINE void kernel(long depth, const T* a, long lda, const T* b, long ldb,
                        typename KernelShape<T>::Result* c, long ldc, bool accumulate, long last) {
  using V = Vec<T>;
  using R = Vec<typename KernelShape<T>::Result>;
  constexpr int lanes = V::lanes;
  // With few rows there are too few sums to hide the latency of one. Every second or fourth k is then summed
  // separately.
  constexpr int sums = KernelShape<T>::emulated || rows * vectors >= 8 ? 1 : rows * vectors >= 4 ? 2 : 4;
  using S = typename KernelShape<T>::Sum;
  S part[sums][rows][vectors];
#pragma GCC unroll 4
  for (int s = 0; s < sums; ++s) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) part[s][r][v].clear();
    }
  }
  long k = 0;
  const auto step = [&](S(&sum)[rows][vectors]) __attribute__((always_inline)) {
    V column[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      column[v] = partial ? V::load(b + v * lanes, last) : V::load(b + v * lanes);
    b += ldb;
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const V row(packed ? a[r] : a[r * lda + k]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v].add(row, column[v]);
    }
    if (packed) a += KernelShape<T>::mr;
    ++k;
  };
  while (k + sums <= depth) {
#pragma GCC unroll 4
    for (int s = 0; s < sums; ++s) step(part[s]);
  }
  if (sums > 1)
    while (k < depth) step(part[0]);
  S(&sum)[rows][vectors] = part[0];
#pragma GCC unroll 4
  for (int s = 1; s < sums; ++s) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v].add(part[s][r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      auto* p = c + r * ldc + v * lanes;
      // C is added last: blocks of k are summed separately, so that the error grows with their length instead
      // of with k.
      R value = sum[r][v].rounded();
      if (accumulate) value = value + (partial ? R::load(p, last) : R::load(p));
      if (partial)
        value.store(p, last);
      else
        value.store(p);
    }
  }
}

// Multiplies all rows of A by one panel of B: whole panels of mr rows, two halves, then 8, 4, 2 and 1 rows.
template <class T, int vectors, bool partial, bool packed>
static void rows_times_panel(long m, long depth, const T* a, long lda, const T* b, long ldb,
                             typename KernelShape<T>::Result* c, long ldc, bool accumulate, long last) {
  constexpr int mr = KernelShape<T>::mr, half = half_rows(mr);
  for (; m >= mr && !halves(mr, m); m -= mr, a += mr * (packed ? depth : lda), c += mr * ldc)
    kernel<T, mr, vectors, partial, packed>(depth, a, lda, b, ldb, c, ldc, accumulate, last);
  if constexpr (half > 0)
    for (; m == 2 * half || m == half; m -= half, a += packed ? mr * depth : half * lda, c += half * ldc)
      kernel<T, half, vectors, partial, packed>(depth, a, lda, b, ldb, c, ldc, accumulate, last);
  const long next_row = packed ? 1 : lda;
#define TILE_ROWS(rows)                                                                         \
  if (rows < mr && m >= rows) {                                                                 \
    kernel<T, rows, vectors, partial, packed>(depth, a, lda, b, ldb, c, ldc, accumulate, last); \
    m -= rows, a += rows * next_row, c += rows * ldc;                                           \
  }
  if constexpr (mr > 8) {
    TILE_ROWS(8)
  }
  if constexpr (mr > 4) {
    TILE_ROWS(4)
  }
  if constexpr (mr > 2) {
    TILE_ROWS(2)
  }
  TILE_ROWS(1)
#undef TILE_ROWS
}

// B's panel p starts at b + p next_panel; its rows are ldb apart.
template <class T, bool packed>
static void multiply(long m, long n, long depth, const T* a, long lda, const T* b, long ldb, long next_panel,
                     typename KernelShape<T>::Result* c, long ldc, bool accumulate) {
  constexpr int lanes = Vec<T>::lanes, vectors = KernelShape<T>::vectors, nr = KernelShape<T>::nr;
  for (; n >= nr; n -= nr, b += next_panel, c += nr)
    rows_times_panel<T, vectors, false, packed>(m, depth, a, lda, b, ldb, c, ldc, accumulate, lanes);
  for (; n >= lanes; n -= lanes, b += lanes, c += lanes)
    rows_times_panel<T, 1, false, packed>(m, depth, a, lda, b, ldb, c, ldc, accumulate, lanes);
  if (n > 0) rows_times_panel<T, 1, true, packed>(m, depth, a, lda, b, ldb, c, ldc, accumulate, n);
}

}  // namespace tile::cpu::TILE_ISA
