// Products of at most few_rows rows. Each element of B is used so few times that packing B would take longer
// than the product: B is read in place, where one of its directions is contiguous.
#pragma once
#include "cpu/gemm/isa/gemm_kernel.h"
#include "cpu/gemm/isa/gemm_pack.h"
#if TILE_VECTOR_BYTES == 64
#include "cpu/gemm/isa/gemm_pairs.h"
#endif

namespace tile::cpu::TILE_ISA {

// Returns a vector of contiguous values, with zeros behind the last one; `left` of them are there.
template <class T, class S>
TILE_INLINE Vec<T> load_along(const S* p, long left) {
  if constexpr (KernelShape<T>::together == 2)
    return pairs_of(p, left);
  else
    return load_as<T>(p, left);
}

// Rows of A, each of whole elements of T.
template <class T, class S>
static void copy_rows(long m, long k, const MatrixView& a, void* to) {
  auto* out = static_cast<T*>(to);
  constexpr long lanes = Vec<T>::lanes, together = KernelShape<T>::together;
  const long depth = (k + together - 1) / together;
  for (long r = 0; r < m; ++r, out += depth) {
    const auto* row = static_cast<const S*>(a.data) + r * a.row_stride;
    for (long at = 0; at < depth; at += lanes) {
      const long left = k - at * together, room = depth - at;
      S some[lanes * together] = {};
      if (a.column_stride != 1)
        for (long i = 0; i < lanes * together && i < left; ++i)
          some[i] = row[(at * together + i) * a.column_stride];
      const Vec<T> x = load_along<T>(a.column_stride == 1 ? row + at * together : some, left);
      if (room >= lanes)
        x.store(out + at);
      else
        x.store(out + at, room);
    }
  }
}

// The sums that fit registers beside a vector of each operand.
template <class T>
inline constexpr int few_sums = KernelShape<T>::emulated ? 4
                                : vector_bytes == 64     ? 16
                                                         : 8;

// C[rows x columns] (+)= A B for columns of B that are contiguous: vectors along k are multiplied, and their
// lanes are summed in the end.
template <class T, class S, int rows, int columns>
TILE_INLINE void dots(long k, const T* a, long lda, const S* b, long ldb, typename KernelShape<T>::Result* c,
                      long ldc, bool accumulate) {
  using V = Vec<T>;
  using R = typename KernelShape<T>::Result;
  constexpr int lanes = V::lanes, together = KernelShape<T>::together;
  typename KernelShape<T>::Sum sum[rows][columns];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < columns; ++j) sum[r][j].clear();
  }
  const auto step = [&](long at, long left, long depth) __attribute__((always_inline)) {
    V column[columns];
#pragma GCC unroll 8
    for (int j = 0; j < columns; ++j) column[j] = load_along<T>(b + j * ldb + at * together, left);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const V row = depth == lanes ? V::load(a + r * lda + at) : V::load(a + r * lda + at, depth);
#pragma GCC unroll 8
      for (int j = 0; j < columns; ++j) sum[r][j].add(row, column[j]);
    }
  };
  long at = 0;
  for (; (at + lanes) * together <= k; at += lanes) step(at, lanes * together, lanes);
  if (const long left = k - at * together; left > 0) step(at, left, (left + together - 1) / together);
  R total[lanes];
  if constexpr (rows * columns == lanes) {
    Vec<R> all[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) all[i] = sum[i / columns][i % columns].rounded();
    transpose(all);
#pragma GCC unroll 4
    for (int width = lanes / 2; width > 0; width /= 2) {
#pragma GCC unroll 8
      for (int i = 0; i < width; ++i) all[i] = all[i] + all[i + width];
    }
    all[0].store(total);
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < columns; ++j) {
      const R one = rows * columns == lanes ? total[r * columns + j]
                                            : reduce(sum[r][j].rounded(), [](R x, R y) { return x + y; });
      R& out = c[r * ldc + j];
      out = accumulate ? out + one : one;
    }
  }
}
template <class T, class S, int rows>
TILE_INLINE void rows_of_dots(long n, long k, const T* a, long lda, const S* b, long ldb,
                              typename KernelShape<T>::Result* c, long ldc, bool accumulate) {
  constexpr int most = few_sums<T> / rows, columns = most > 4 ? 4 : most > 0 ? most : 1;
  for (; n >= columns; n -= columns, b += columns * ldb, c += columns)
    dots<T, S, rows, columns>(k, a, lda, b, ldb, c, ldc, accumulate);
  for (; n > 0; --n, b += ldb, ++c) dots<T, S, rows, 1>(k, a, lda, b, ldb, c, ldc, accumulate);
}

// The same for rows of B that are contiguous: rows of `columns` vectors are summed for some k, then added to
// C.
template <class T, class S, int rows, int columns, bool partial>
TILE_INLINE void multiples(long k, const T* a, long lda, const S* b, long ldb, T* c, long ldc,
                           bool accumulate, long last) {
  using V = Vec<T>;
  constexpr int lanes = V::lanes;
  typename KernelShape<T>::Sum sum[rows][columns];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 16
    for (int j = 0; j < columns; ++j) sum[r][j].clear();
  }
  for (long at = 0; at < k; ++at, b += ldb) {
    V row[columns];
#pragma GCC unroll 16
    for (int j = 0; j < columns; ++j) row[j] = load_as<T>(b + j * lanes, partial ? last : lanes);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const V factor(a[r * lda + at]);
#pragma GCC unroll 16
      for (int j = 0; j < columns; ++j) sum[r][j].add(factor, row[j]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 16
    for (int j = 0; j < columns; ++j) {
      T* const out = c + r * ldc + j * lanes;
      V total = sum[r][j].rounded();
      if (accumulate) total = total + (partial ? V::load(out, last) : V::load(out));
      if (partial)
        total.store(out, last);
      else
        total.store(out);
    }
  }
}
template <class T, class S, int rows>
TILE_INLINE void rows_of_multiples(long n, long k, const T* a, long lda, const S* b, long ldb, T* c, long ldc,
                                   bool accumulate) {
  constexpr int lanes = Vec<T>::lanes, most = few_sums<T> / rows, columns = most > 0 ? most : 1;
  for (; n >= columns * lanes; n -= columns * lanes, b += columns * lanes, c += columns * lanes)
    multiples<T, S, rows, columns, false>(k, a, lda, b, ldb, c, ldc, accumulate, lanes);
  for (; n >= lanes; n -= lanes, b += lanes, c += lanes)
    multiples<T, S, rows, 1, false>(k, a, lda, b, ldb, c, ldc, accumulate, lanes);
  if (n > 0) multiples<T, S, rows, 1, true>(k, a, lda, b, ldb, c, ldc, accumulate, n);
}

// Calls body.operator()<count>(first row) for all rows.
template <class T, class F>
TILE_INLINE void each_few_rows(long m, const F& body) {
  long row = 0;
  const auto some = [&]<int count>() __attribute__((always_inline)) {
    for (; row + count <= m; row += count) body.template operator()<count>(row);
  };
  if constexpr (!KernelShape<T>::emulated) {
    some.template operator()<8>();
    some.template operator()<4>();
  }
  some.template operator()<2>();
  some.template operator()<1>();
}
template <class T, class S>
static void columns_in_place(long m, long n, long k, const void* rows, const MatrixView& b, void* c, long ldc,
                             bool accumulate) {
  constexpr int together = KernelShape<T>::together;
  const long lda = (k + together - 1) / together;
  each_few_rows<T>(
      m, [&]<int count>(long row) __attribute__((always_inline)) {
        rows_of_dots<T, S, count>(
            n, k, static_cast<const T*>(rows) + row * lda, lda, static_cast<const S*>(b.data),
            b.column_stride, static_cast<typename KernelShape<T>::Result*>(c) + row * ldc, ldc, accumulate);
      });
}
template <class T, class S>
static void rows_in_place(long m, long n, long k, const void* rows, const MatrixView& b, void* c, long ldc,
                          bool accumulate) {
  constexpr long together = 16;  // a processor reads ahead along the rows of B if these are few
  const auto* a = static_cast<const T*>(rows);
  const auto* from = static_cast<const S*>(b.data);
  each_few_rows<T>(
      m, [&]<int count>(long row) __attribute__((always_inline)) {
        for (long at = 0; at == 0 || at < k; at += together)
          rows_of_multiples<T, S, count>(n, k - at < together ? k - at : together, a + row * k + at, k,
                                         from + at * b.row_stride, b.row_stride,
                                         static_cast<T*>(c) + row * ldc, ldc, accumulate || at > 0);
      });
}

// T: of A's rows. Sources are as those of pack_a and pack_b.
template <class T, class S>
constexpr void columns_source(GemmKernels& k, DType dtype) {
  k.columns_in_place.rows[static_cast<int>(dtype)] = copy_rows<T, S>;
  k.columns_in_place.multiply[static_cast<int>(dtype)] = columns_in_place<T, S>;
}
template <class T, class S>
constexpr void rows_source(GemmKernels& k, DType dtype) {
  k.rows_in_place.rows[static_cast<int>(dtype)] = copy_rows<T, S>;
  k.rows_in_place.multiply[static_cast<int>(dtype)] = rows_in_place<T, S>;
}

}  // namespace tile::cpu::TILE_ISA
