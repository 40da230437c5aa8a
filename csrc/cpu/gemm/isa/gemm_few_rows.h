// Products of at most few_rows rows. Each element of B is used so few times that packing B would take longer
// than the product: B is read in place, where one of its directions is contiguous.
#pragma once
#include "cpu/gemm/isa/gemm_kernel.h"
#include "cpu/gemm/isa/gemm_pack.h"
#if TILE_VECTOR_BYTES == 64
#include "cpu/gemm/isa/gemm_pairs.h"
#endif

namespace tile::cpu::TILE_ISA {

// Reads a line of B early, into the second-level cache: B's rows and columns are too short for a processor to
// find out in time that it should read ahead. The address may lie behind the array.
TILE_INLINE void read_early(const void* p) { __builtin_prefetch(p, 0, 2); }

// Returns a vector of contiguous values, with zeros behind the last one; `left` of them are there.
template <class T, class S>
TILE_INLINE Vec<T> load_along(const S* p, long left) {
  if constexpr (KernelShape<T>::together == 2)
    return pairs_of(p, left);
  else
    return load_as<T>(p, left);
}

// Returns the values of a vector of columns, of as many rows as an element has: the first `n` columns, and
// zeros behind the `left` > 0 rows.
template <class T, class S>
TILE_INLINE Vec<T> load_down(const S* p, long ld, long n, long left) {
  if constexpr (KernelShape<T>::together == 2)
    return pair(bits_of(p, n), left > 1 ? bits_of(p + ld, n) : Vec<T>(T(0)));
  else
    return load_as<T>(p, n);
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
#pragma GCC unroll 16
    for (int j = 0; j < columns; ++j) sum[r][j].clear();
  }
  const auto step = [&](long at, long left, long depth) __attribute__((always_inline)) {
    V column[columns];
#pragma GCC unroll 16
    for (int j = 0; j < columns; ++j) {
      const S* const from = b + j * ldb + at * together;
      column[j] = load_along<T>(from, left);
      read_early(from + columns * ldb);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const V row = depth == lanes ? V::load(a + r * lda + at) : V::load(a + r * lda + at, depth);
#pragma GCC unroll 16
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
#pragma GCC unroll 16
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
  constexpr int most = few_sums<T> / rows,
                columns = most > 4   ? 4
                          : most > 0 ? most
                                     : 1,
                lanes = Vec<T>::lanes, together = KernelShape<T>::together;
  // For a short k most of the time goes into adding up lanes, which is fast for as many sums as lanes. A
  // processor reads fewer columns ahead.
  constexpr int wide = lanes / rows;
  if constexpr (wide > columns && wide <= most)
    if (k <= 16 * lanes * together)
      for (; n >= wide; n -= wide, b += wide * ldb, c += wide)
        dots<T, S, rows, wide>(k, a, lda, b, ldb, c, ldc, accumulate);
  for (; n >= columns; n -= columns, b += columns * ldb, c += columns)
    dots<T, S, rows, columns>(k, a, lda, b, ldb, c, ldc, accumulate);
  for (; n > 0; --n, b += ldb, ++c) dots<T, S, rows, 1>(k, a, lda, b, ldb, c, ldc, accumulate);
}

// The same for a k of few vectors: a lane's first product would be rounded, and there are as many as lanes.
template <class S>
static void short_dots(long m, long n, long k, const float* a, const S* b, long ldb, float* c, long ldc,
                       bool accumulate) {
  constexpr int lanes = Vec<float>::lanes;
  for (long r = 0; r < m; ++r, a += k, c += ldc) {
    for (long j = 0; j < n; ++j) {
      DoubleSum sum;
      sum.clear();
      for (long at = 0; at < k; at += lanes)
        sum.add(load_as<float>(a + at, k - at), load_as<float>(b + j * ldb + at, k - at));
      const auto one = static_cast<float>(
          reduce(sum.value.low + sum.value.high, [](double x, double y) { return x + y; }));
      c[j] = accumulate ? c[j] + one : one;
    }
  }
}

// The same for rows of B that are contiguous: rows of `columns` vectors are summed for some k, then added to
// C. What is `ahead` of B is needed next.
template <class T, class S, int rows, int columns, bool partial>
TILE_INLINE void multiples(long k, const T* a, long lda, const S* b, long ldb,
                           typename KernelShape<T>::Result* c, long ldc, bool accumulate, long last,
                           long ahead) {
  using V = Vec<T>;
  using R = Vec<typename KernelShape<T>::Result>;
  constexpr int lanes = V::lanes, together = KernelShape<T>::together;
  typename KernelShape<T>::Sum sum[rows][columns];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 16
    for (int j = 0; j < columns; ++j) sum[r][j].clear();
  }
  for (long at = 0; at * together < k; ++at, b += together * ldb) {
    V row[columns];
#pragma GCC unroll 16
    for (int j = 0; j < columns; ++j) {
      row[j] = load_down<T>(b + j * lanes, ldb, partial ? last : lanes, k - at * together);
#pragma GCC unroll 2
      for (int i = 0; i < together; ++i) read_early(b + i * ldb + j * lanes + ahead);
    }
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
      auto* const out = c + r * ldc + j * lanes;
      R total = sum[r][j].rounded();
      if (accumulate) total = total + (partial ? R::load(out, last) : R::load(out));
      if (partial)
        total.store(out, last);
      else
        total.store(out);
    }
  }
}
template <class T, class S, int rows>
TILE_INLINE void rows_of_multiples(long n, long k, const T* a, long lda, const S* b, long ldb,
                                   typename KernelShape<T>::Result* c, long ldc, bool accumulate) {
  // A single row reads no longer pieces of B than two rows do, which takes longer.
  constexpr int lanes = Vec<T>::lanes, most = few_sums<T> / rows,
                columns = most > 8   ? 8
                          : most > 0 ? most
                                     : 1;
  const long next_rows = k * ldb - n;  // behind the last column
  const auto some = [&]<int vectors>() __attribute__((always_inline)) {
    constexpr long width = vectors * lanes;
    for (; n >= width; n -= width, b += width, c += width)
      multiples<T, S, rows, vectors, false>(k, a, lda, b, ldb, c, ldc, accumulate, lanes,
                                            n >= 2 * width ? width : next_rows + n);
  };
  some.template operator()<columns>();
  if constexpr (columns > 4) some.template operator()<4>();
  some.template operator()<1>();
  if (n > 0) multiples<T, S, rows, 1, true>(k, a, lda, b, ldb, c, ldc, accumulate, n, 0);
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
static void columns_in_place(long m, long n, long k, long, const void* rows, const MatrixView& b, void* c,
                             long ldc, bool accumulate) {
  constexpr int together = KernelShape<T>::together;
  const long lda = (k + together - 1) / together;
  if constexpr (std::is_same_v<T, float>) {
    if (k < 2 * Vec<T>::lanes)
      return short_dots(m, n, k, static_cast<const T*>(rows), static_cast<const S*>(b.data), b.column_stride,
                        static_cast<T*>(c), ldc, accumulate);
  }
  each_few_rows<T>(
      m, [&]<int count>(long row) __attribute__((always_inline)) {
        rows_of_dots<T, S, count>(
            n, k, static_cast<const T*>(rows) + row * lda, lda, static_cast<const S*>(b.data),
            b.column_stride, static_cast<typename KernelShape<T>::Result*>(c) + row * ldc, ldc, accumulate);
      });
}
template <class T, class S>
static void rows_in_place(long m, long n, long k, long run, const void* rows, const MatrixView& b, void* c,
                          long ldc, bool accumulate) {
  constexpr int together = KernelShape<T>::together;
  const long lda = (k + together - 1) / together;
  const auto* a = static_cast<const T*>(rows);
  const auto* from = static_cast<const S*>(b.data);
  each_few_rows<T>(
      m, [&]<int count>(long row) __attribute__((always_inline)) {
        for (long at = 0; at == 0 || at < k; at += run)
          rows_of_multiples<T, S, count>(n, k - at < run ? k - at : run, a + row * lda + at / together, lda,
                                         from + at * b.row_stride, b.row_stride,
                                         static_cast<typename KernelShape<T>::Result*>(c) + row * ldc, ldc,
                                         accumulate || at > 0);
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
