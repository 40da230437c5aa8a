// Tests matrix products against a plain triple loop: odd sizes, strides and dtypes, on every instruction set
// of this machine.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "cpu/gemm/gemm_table.h"
#include "cpu/isa/tile_twin.h"
#include "cpu/machine_isas.h"
#include "cpu/strip.h"

namespace tile::cpu {
namespace {

// Small integers, which are exact in every dtype (fp8 too), so that results are compared for equality.
int small(std::mt19937& random, DType dtype) {
  if (dtype == DType::boolean) return static_cast<int>(random() % 2);
  if (is_unsigned(dtype)) return static_cast<int>(random() % 8);
  return static_cast<int>(random() % 15) - 7;
}
// Writes `value` in the bits of dtype.
void write(DType dtype, int value, void* to) {
  const float as_float = static_cast<float>(value);
  const double as_double = value;
  uint32_t bits;
  std::memcpy(&bits, &as_float, 4);
  const uint32_t exponent = bits >> 23 & 0xff, mantissa = bits & 0x7fffff, sign = bits >> 31;
  const int64_t integer = value;
  uint64_t word = 0;
  switch (dtype) {
    case DType::f32:
    case DType::tf32:
      word = bits;
      break;
    case DType::f64:
      std::memcpy(&word, &as_double, 8);
      break;
    case DType::bf16:
      word = bits >> 16;
      break;
    case DType::f16:
      word = sign << 15 | (value ? (exponent - 112) << 10 | mantissa >> 13 : 0);
      break;
    case DType::f8e4m3:
      word = sign << 7 | (value ? (exponent - 120) << 3 | mantissa >> 20 : 0);
      break;
    case DType::f8e5m2:  // two bits of mantissa: 5 and 7 are not exact, so the caller uses even values
      word = sign << 7 | (value ? (exponent - 112) << 2 | mantissa >> 21 : 0);
      break;
    default:
      std::memcpy(&word, &integer, 8);
  }
  std::memcpy(to, &word, static_cast<size_t>(info(dtype).bytes));
}

// A rows x columns matrix of dtype with gaps, and its values.
struct Matrix {
  Matrix(DType dtype, long rows, long columns, int layout, std::mt19937& random)
      : dtype(dtype), rows(rows), columns(columns) {
    const long bytes = info(dtype).bytes;
    view.row_stride = layout == 0   ? columns
                      : layout == 1 ? 1
                      : layout == 2 ? columns + 3
                      : layout == 3 ? 2 * columns + 1
                                    : 0;
    view.column_stride = layout == 1 ? rows + 5 : layout == 3 ? 2 : layout == 4 ? -1 : 1;
    const long base = layout == 4 ? columns : 0;
    long size = base + 1;
    if (rows > 0 && columns > 0)
      size = std::max(
          size, (rows - 1) * view.row_stride + (columns - 1) * std::max(view.column_stride, 0L) + base + 1);
    memory.assign(static_cast<size_t>(size * bytes),
                  0xff);  // exact size, so that a sanitizer reports reads past it
    values.resize(static_cast<size_t>(rows * columns));
    view.data = memory.data() + base * bytes;
    for (long r = 0; r < rows; ++r)
      for (long c = 0; c < columns; ++c) {
        int v = small(random, dtype);
        if (dtype == DType::f8e5m2) v &= ~3;
        if (layout == 4 && r > 0) v = values[c];
        values[r * columns + c] = v;
        write(dtype, v, memory.data() + (base + r * view.row_stride + c * view.column_stride) * bytes);
      }
  }
  DType dtype;
  long rows, columns;
  MatrixView view;
  std::vector<uint8_t> memory;
  std::vector<int> values;
};

template <class T>
void fill_c(std::vector<T>& c) {
  for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<T>(i % 11);
}
template <class T>
void check(const char* what, Isa isa, DType dtype, const Matrix& a, const Matrix& b, long ldc,
           const std::vector<T>& c, bool accumulate) {
  std::vector<T> before(c.size());
  fill_c(before);
  for (long i = 0; i < a.rows; ++i)
    for (long j = 0; j < ldc; ++j) {
      T want = before[i * ldc + j];
      if (j < b.columns) {
        if (!accumulate) want = 0;
        for (long k = 0; k < a.columns; ++k)
          want += static_cast<T>(a.values[i * a.columns + k]) * static_cast<T>(b.values[k * b.columns + j]);
      }
      ASSERT_EQ(c[i * ldc + j], want)
          << what << " " << info(dtype).name << " on " << name(isa) << ", [" << a.rows << " x " << a.columns
          << "] x [" << a.columns << " x " << b.columns << "] at " << i << ", " << j
          << (accumulate ? ", accumulated" : "");
    }
}

// Returns the matrix as rows `stride` elements apart, of T or of bf16, without padding after the last row.
template <class T>
std::vector<char> row_major(const Matrix& matrix, DType dtype, long stride) {
  const long bytes = info(dtype).bytes;
  std::vector<char> rows(
      static_cast<size_t>(matrix.rows ? ((matrix.rows - 1) * stride + matrix.columns) * bytes : 0));
  for (long i = 0; i < matrix.rows; ++i)
    for (long j = 0; j < matrix.columns; ++j) {
      const T value = static_cast<T>(matrix.values[i * matrix.columns + j]);
      char element[sizeof(T)];
      std::memcpy(element, &value, sizeof value);
      // bf16 is the upper half of a float.
      std::memcpy(&rows[static_cast<size_t>((i * stride + j) * bytes)],
                  element + (dtype == DType::bf16 ? 2 : 0), static_cast<size_t>(bytes));
    }
  return rows;
}

template <class T>
void multiply_all_ways(const GemmKernels& g, Isa isa, DType dtype, long m, long n, long k,
                       std::mt19937& random) {
  ASSERT_EQ(g.element_bytes, static_cast<int>(sizeof(T)));
  const int d = static_cast<int>(dtype);
  Matrix a(dtype, m, k, static_cast<int>(random() % 5), random),
      b(dtype, k, n, static_cast<int>(random() % 5), random);
  const long ldc = n + static_cast<long>(random() % 3);
  const bool accumulate = random() % 2;
  std::vector<T> c(static_cast<size_t>(m * ldc));
  std::vector<T> packed_a(static_cast<size_t>(g.packed_a_size(m, k)), T(77)),
      packed_b(static_cast<size_t>(g.packed_b_size(k, n)), T(77));
  g.pack_a[d](m, k, a.view, packed_a.data());
  g.pack_b[d](k, n, b.view, packed_b.data());

  fill_c(c);
  g.packed(m, n, k, packed_a.data(), packed_b.data(), c.data(), ldc, accumulate);
  check("packed", isa, dtype, a, b, ldc, c, accumulate);

  // The in-place forms take row-major operands.
  const long lda = k + 2, ldb = n + 1;
  if (m % g.direct_rows == 0 && k % g.depth_step == 0) {
    const std::vector<char> plain_a = row_major<T>(a, g.in_place, lda);
    fill_c(c);
    g.direct_a(m, n, k, plain_a.data(), lda, packed_b.data(), c.data(), ldc, accumulate);
    check("direct_a", isa, dtype, a, b, ldc, c, accumulate);
  }
  if (g.direct) {
    const std::vector<char> plain_a = row_major<T>(a, g.in_place, lda),
                            plain_b = row_major<T>(b, g.in_place, ldb);
    fill_c(c);
    g.direct(m, n, k, plain_a.data(), lda, plain_b.data(), ldb, c.data(), ldc, accumulate);
    check("direct", isa, dtype, a, b, ldc, c, accumulate);
  }

  std::vector<T> strip(static_cast<size_t>(g.strip_size(k, n)), T(77)),
      scratch(static_cast<size_t>(g.blocked_scratch_size(m, k)), T(77));
  pack_strip(g, k, n, b.view, dtype, strip.data());
  fill_c(c);
  g.blocked(m, n, k, a.view, dtype, strip.data(), c.data(), ldc, accumulate, scratch.data());
  check("blocked", isa, dtype, a, b, ldc, c, accumulate);

  std::vector<T> blocks(static_cast<size_t>(g.blocks_size(m, k)), T(77));
  for (long part = g.block_parts(k); part-- > 0;) g.pack_blocks(m, k, a.view, dtype, blocks.data(), part);
  fill_c(c);
  g.packed_blocks(m, n, k, blocks.data(), strip.data(), c.data(), ldc, accumulate);
  check("packed_blocks", isa, dtype, a, b, ldc, c, accumulate);

  std::vector<T> rows(static_cast<size_t>(g.rows_size(m, k)), T(77)),
      piece(static_cast<size_t>(g.streamed_scratch_size(k, n)), T(77));
  g.pack_rows(m, k, a.view, dtype, rows.data());
  fill_c(c);
  g.streamed(m, n, k, rows.data(), b.view, dtype, c.data(), ldc, accumulate, piece.data());
  check("streamed", isa, dtype, a, b, ldc, c, accumulate);
}

const DType all_dtypes[] = {DType::boolean, DType::i8,   DType::i16, DType::i32,    DType::i64,    DType::u8,
                            DType::u16,     DType::u32,  DType::u64, DType::f8e4m3, DType::f8e5m2, DType::f16,
                            DType::bf16,    DType::tf32, DType::f32, DType::f64};

void multiply(Isa isa, DType dtype, long m, long n, long k, std::mt19937& random) {
  const GemmKernels& kernels = gemm_table(isa).of(dtype);
  switch (kernels.compute) {
    case DType::f32:
      return multiply_all_ways<float>(kernels, isa, dtype, m, n, k, random);
    case DType::f64:
      return multiply_all_ways<double>(kernels, isa, dtype, m, n, k, random);
    case DType::i32:
      return multiply_all_ways<int32_t>(kernels, isa, dtype, m, n, k, random);
    default:
      return multiply_all_ways<int64_t>(kernels, isa, dtype, m, n, k, random);
  }
}

TEST(Gemm, EverySmallSize) {
  std::mt19937 random(3);
  for (Isa isa : machine_isas())
    for (DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32})
      for (long m : {0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 14, 15, 16, 20, 29, 30})
        for (long n : {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 65})
          for (long k : {0, 1, 2, 7, 8, 9, 16, 33}) {
            multiply(isa, dtype, m, n, k, random);
            if (HasFatalFailure()) return;
          }
}

TEST(Gemm, EveryDtypeAndRandomSizes) {
  std::mt19937 random(4);
  for (Isa isa : machine_isas())
    for (DType dtype : all_dtypes)
      for (int round = 0; round < 60; ++round) {
        const long m = static_cast<long>(random() % 40), n = static_cast<long>(random() % 70),
                   k = static_cast<long>(random() % 50);
        multiply(isa, dtype, m, n, k, random);
        if (HasFatalFailure()) return;
      }
}

TEST(Gemm, DeeperThanOneBlock) {
  std::mt19937 random(5);
  for (Isa isa : machine_isas())
    for (DType dtype : {DType::f32, DType::f16, DType::f64, DType::i8, DType::i64})
      for (long k : {255, 256, 257, 600}) {
        multiply(isa, dtype, 37, 50, k, random);
        multiply(isa, dtype, 3, 300, k, random);
        if (HasFatalFailure()) return;
      }
}

// Uses the instructions for bf16, with operands of bf16 and of f32 that holds bf16 values.
TEST(Gemm, PairsOfBf16) {
  std::mt19937 random(8);
  for (Isa isa : machine_isas()) {
    for (const GemmKernels* kernels : {bf16_gemm(isa), amx_gemm(isa), tile_twin(isa).kernels}) {
      if (!kernels) continue;
      if (kernels->begin) kernels->begin();
      for (DType dtype : {DType::bf16, DType::f32})
        for (long m : {0, 1, 2, 5, 13, 14, 15, 16, 29, 30, 32, 48})
          for (long n : {0, 1, 15, 16, 17, 31, 32, 33, 65, 150})
            for (long k : {0, 1, 2, 3, 15, 31, 32, 33, 65, 160, 257, 600}) {
              multiply_all_ways<float>(*kernels, isa, dtype, m, n, k, random);
              if (HasFatalFailure()) return;
            }
      if (kernels->end) kernels->end();
    }
  }
}

TEST(Gemm, IntegersWrap) {
  for (Isa isa : machine_isas()) {
    const GemmKernels& g = gemm_table(isa).i32;
    const int32_t a[] = {0x7fffffff, 2}, b[] = {3, 0x7fffffff};
    std::vector<int32_t> pa(static_cast<size_t>(g.packed_a_size(1, 2))),
        pb(static_cast<size_t>(g.packed_b_size(2, 1)));
    const int i32 = static_cast<int>(DType::i32);
    g.pack_a[i32](1, 2, {a, 2, 1}, pa.data());
    g.pack_b[i32](2, 1, {b, 1, 1}, pb.data());
    int32_t c = 0;
    g.packed(1, 1, 2, pa.data(), pb.data(), &c, 1, false);
    EXPECT_EQ(c, static_cast<int32_t>(0x7fffffffu * 3u + 2u * 0x7fffffffu)) << name(isa);
  }
}

// Uses non-integers too: sums of rounded products, compared with double.
TEST(Gemm, RealValues) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  const long m = 53, n = 47, k = 301;
  std::vector<float> a(m * k), b(k * n), c(m * n);
  for (float& v : a) v = normal(random);
  for (float& v : b) v = normal(random);
  for (Isa isa : machine_isas()) {
    const GemmKernels& g = gemm_table(isa).f32;
    std::vector<float> strip(static_cast<size_t>(g.strip_size(k, n))),
        scratch(static_cast<size_t>(g.blocked_scratch_size(m, k)));
    pack_strip(g, k, n, {b.data(), n, 1}, DType::f32, strip.data());
    g.blocked(m, n, k, {a.data(), k, 1}, DType::f32, strip.data(), c.data(), n, false, scratch.data());
    for (long i = 0; i < m; ++i)
      for (long j = 0; j < n; ++j) {
        double want = 0;
        for (long x = 0; x < k; ++x) want += static_cast<double>(a[i * k + x]) * b[x * n + j];
        ASSERT_NEAR(c[i * n + j], want, 1e-4) << name(isa);
      }
  }
}

// NaN and infinity in the padding of a panel must not reach C, and a NaN in A or B must not be lost.
TEST(Gemm, NaNStaysInItsRowAndColumn) {
  const float nan = std::nanf("");
  for (Isa isa : machine_isas()) {
    const GemmKernels& g = gemm_table(isa).f32;
    std::vector<float> a(7 * 5, 1.f), b(5 * 9, 1.f), c(7 * 9);
    a[3 * 5 + 2] = nan;
    std::vector<float> strip(static_cast<size_t>(g.strip_size(5, 9)), nan),
        scratch(static_cast<size_t>(g.blocked_scratch_size(7, 5)), nan);
    pack_strip(g, 5, 9, {b.data(), 9, 1}, DType::f32, strip.data());
    g.blocked(7, 9, 5, {a.data(), 5, 1}, DType::f32, strip.data(), c.data(), 9, false, scratch.data());
    for (int i = 0; i < 63; ++i) EXPECT_EQ(std::isnan(c[i]), i / 9 == 3) << name(isa) << " " << i;
  }
}

}  // namespace
}  // namespace tile::cpu
