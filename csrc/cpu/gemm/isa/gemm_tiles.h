// Products of bf16 on tile registers. A panel is 16 rows of A or 16 columns of B, stored as consecutive
// squares of 16 x 16 pairs along k. A square of A has rows of 32 values of k in 64 bytes; a square of B has
// rows of one pair of k for 16 columns.
#pragma once
#include "cpu/gemm/isa/amx.h"
#include "cpu/gemm/isa/gemm_few_rows.h"
#include "cpu/gemm/isa/gemm_loops.h"
#include "cpu/gemm/isa/gemm_pairs.h"
#include "cpu/vecmath/transpose.h"

namespace tile::cpu::TILE_ISA {
namespace {

constexpr int tile_edge = 16, tile_depth = 2 * tile_edge, tile_pairs = tile_edge * tile_edge;
static_assert(Vec<Bf16Pair>::lanes == tile_edge);

// Loads a square of pairs, of which `rows` of the outer direction and `depth` values of k exist. Its vectors
// run along k if k is contiguous, else along the outer direction.
template <class S, bool full>
TILE_INLINE void load_square(const S* p, long so, long si, long rows, long depth,
                             Vec<Bf16Pair> (&r)[tile_edge]) {
  const Vec<Bf16Pair> zero(0u);
  if (si == 1) {
#pragma GCC unroll 16
    for (int q = 0; q < tile_edge; ++q)
      r[q] = full || q < rows ? pairs_of(p + q * so, full ? tile_depth : depth) : zero;
  } else {
    const auto values = [&](int k) __attribute__((always_inline)) {
      return full || k < depth ? bits_of(p + k * si, full ? tile_edge : rows) : zero;
    };
#pragma GCC unroll 16
    for (int q = 0; q < tile_edge; ++q) r[q] = pair(values(2 * q), values(2 * q + 1));
  }
}
template <class S>
void gather_square(const S* p, long so, long si, long rows, long depth, Vec<Bf16Pair> (&r)[tile_edge]) {
  Bf16Pair pairs[tile_pairs] = {};
  for (long q = 0; q < tile_edge && q < rows; ++q)
    for (long k = 0; k < tile_depth && k < depth; ++k)
      pairs[q * tile_edge + k / 2] |= bits_of(p[q * so + k * si]) << k % 2 * 16;
  for (int q = 0; q < tile_edge; ++q) r[q] = Vec<Bf16Pair>::load(pairs + q * tile_edge);
}

template <class S, bool left>
void pack_square(const S* p, long so, long si, long rows, long depth, Bf16Pair* out) {
  Vec<Bf16Pair> r[tile_edge];
  rows = rows < tile_edge ? rows : tile_edge;
  if (si != 1 && so != 1)
    gather_square(p, so, si, rows, depth, r);
  else if (rows == tile_edge && depth >= tile_depth)
    load_square<S, true>(p, so, si, rows, depth, r);
  else
    load_square<S, false>(p, so, si, rows, depth, r);
  const bool along_k = si == 1 || so != 1;
  if (along_k != left) transpose(r);
#pragma GCC unroll 16
  for (int q = 0; q < tile_edge; ++q) r[q].store(out + q * tile_edge);
}

// Packs in memory order: panel by panel if rows of k are contiguous, else all panels at one square's depth.
template <class S, bool left>
void pack_squares(long outer, long inner, const S* from, long so, long si, Bf16Pair* out) {
  const long depth = (inner + tile_depth - 1) / tile_depth, panel = depth * tile_pairs,
             count = (outer + tile_edge - 1) / tile_edge;
  const auto square = [&](long o, long i) {
    pack_square<S, left>(from + o * tile_edge * so + i * tile_depth * si, so, si, outer - o * tile_edge,
                         inner - i * tile_depth, out + o * panel + i * tile_pairs);
  };
  if (si == 1)
    for (long o = 0; o < count; ++o)
      for (long i = 0; i < depth; ++i) square(o, i);
  else
    for (long i = 0; i < depth; ++i)
      for (long o = 0; o < count; ++o) square(o, i);
}
template <class S>
void pack_a_squares(long m, long k, const MatrixView& a, void* to) {
  pack_squares<S, true>(m, k, static_cast<const S*>(a.data), a.row_stride, a.column_stride,
                        static_cast<Bf16Pair*>(to));
}
template <class S>
void pack_b_squares(long k, long n, const MatrixView& b, void* to) {
  pack_squares<S, false>(n, k, static_cast<const S*>(b.data), b.column_stride, b.row_stride,
                         static_cast<Bf16Pair*>(to));
}

// The panels of A: a square's rows are `line` bytes apart, followed by the distances to the next square along
// k and to the next panel.
struct LeftPanels {
  const Bf16Pair* at;
  long line, square, panel;
};

// C has rows x columns registers, with rows `stride` bytes apart: 0 to 3 hold it, 4 and 5 hold A, 6 and 7
// hold B. Four sums hide the latency of one, and each operand register is read twice.
template <class Registers, int rows, int columns>
TILE_INLINE void multiply_tiles(long steps, LeftPanels a, const Bf16Pair* b, float* c, long stride,
                                bool accumulate) {
  constexpr bool two_rows = rows == 2, two_columns = columns == 2;
  constexpr long line = tile_edge * sizeof(Bf16Pair);
  float* const under = c + tile_edge * (stride / static_cast<long>(sizeof(float)));
  const long panel = steps * tile_pairs;
  if (accumulate) {
    Registers::template load<0>(c, stride);
    if (two_columns) Registers::template load<1>(c + tile_edge, stride);
    if (two_rows) Registers::template load<2>(under, stride);
    if (two_rows && two_columns) Registers::template load<3>(under + tile_edge, stride);
  } else {
    Registers::template zero<0>();
    if (two_columns) Registers::template zero<1>();
    if (two_rows) Registers::template zero<2>();
    if (two_rows && two_columns) Registers::template zero<3>();
  }
  for (long i = 0; i < steps; ++i, a.at += a.square, b += tile_pairs) {
    Registers::template load<6>(b, line);
    Registers::template load<4>(a.at, a.line);
    Registers::template multiply<0, 4, 6>();
    if (two_columns) {
      Registers::template load<7>(b + panel, line);
      Registers::template multiply<1, 4, 7>();
    }
    if (two_rows) {
      Registers::template load<5>(a.at + a.panel, a.line);
      Registers::template multiply<2, 5, 6>();
    }
    if (two_rows && two_columns) Registers::template multiply<3, 5, 7>();
  }
  Registers::template store<0>(c, stride);
  if (two_columns) Registers::template store<1>(c + tile_edge, stride);
  if (two_rows) Registers::template store<2>(under, stride);
  if (two_rows && two_columns) Registers::template store<3>(under + tile_edge, stride);
}

// One block of C of up to rows x columns registers, of which m x n elements exist: nothing past its edge is
// read or written.
template <class Registers, int rows, int columns>
void multiply_block(long m, long n, long steps, LeftPanels a, const Bf16Pair* b, float* c, long ldc,
                    bool accumulate) {
  constexpr long width = columns * tile_edge;
  if (m >= rows * tile_edge && n >= width) {
    multiply_tiles<Registers, rows, columns>(steps, a, b, c, ldc * static_cast<long>(sizeof(float)),
                                             accumulate);
    return;
  }
  alignas(64) float full_tile[rows * tile_edge * width] = {};
  m = m < rows * tile_edge ? m : rows * tile_edge;
  n = n < width ? n : width;
  const unsigned long bytes = static_cast<unsigned long>(n) * sizeof(float);
  if (accumulate)
    for (long r = 0; r < m; ++r) __builtin_memcpy(full_tile + r * width, c + r * ldc, bytes);
  multiply_tiles<Registers, rows, columns>(steps, a, b, full_tile, width * static_cast<long>(sizeof(float)),
                                           accumulate);
  for (long r = 0; r < m; ++r) __builtin_memcpy(c + r * ldc, full_tile + r * width, bytes);
}

template <class Registers, int columns>
TILE_INLINE void multiply_columns(long m, long n, long steps, LeftPanels a, const Bf16Pair* b, float* c,
                                  long ldc, bool accumulate) {
  constexpr long two = 2 * tile_edge;
  for (; m > tile_edge; m -= two, a.at += 2 * a.panel, c += two * ldc)
    multiply_block<Registers, 2, columns>(m, n, steps, a, b, c, ldc, accumulate);
  if (m > 0) multiply_block<Registers, 1, columns>(m, n, steps, a, b, c, ldc, accumulate);
}
template <class Registers>
TILE_INLINE void multiply_panels(long m, long n, long steps, LeftPanels a, const void* packed_b, void* to,
                                 long ldc, bool accumulate) {
  const auto* b = static_cast<const Bf16Pair*>(packed_b);
  auto* c = static_cast<float*>(to);
  constexpr long two = 2 * tile_edge;
  for (; n > tile_edge; n -= two, b += 2 * steps * tile_pairs, c += two)
    multiply_columns<Registers, 2>(m, n, steps, a, b, c, ldc, accumulate);
  if (n > 0) multiply_columns<Registers, 1>(m, n, steps, a, b, c, ldc, accumulate);
}
template <class Registers>
void packed_tiles(long m, long n, long k, const void* a, const void* b, void* c, long ldc, bool accumulate) {
  const long steps = (k + tile_depth - 1) / tile_depth;
  multiply_panels<Registers>(
      m, n, steps,
      {static_cast<const Bf16Pair*>(a), tile_edge * sizeof(Bf16Pair), tile_pairs, steps * tile_pairs}, b, c,
      ldc, accumulate);
}
// Multiplies rows of A in place, for whole squares.
template <class Registers>
void direct_tiles(long m, long n, long k, const void* a, long lda, const void* b, void* c, long ldc,
                  bool accumulate) {
  const long row = lda / 2;  // in pairs
  multiply_panels<Registers>(m, n, k / tile_depth,
                             {static_cast<const Bf16Pair*>(a), row * static_cast<long>(sizeof(Bf16Pair)),
                              tile_edge, tile_edge * row},
                             b, c, ldc, accumulate);
}

template <class Registers>
constexpr GemmKernels tile_kernels() {
  GemmKernels k{};
  k.compute = DType::f32;
  k.element_bytes = sizeof(Bf16Pair);
  k.mr = k.nr = tile_edge;
  k.together = 2;
  k.depth_step = tile_depth;
  // Two panels of B stay in L1 for all rows of A, whose block is in L2.
  k.block_depth = 512;
  k.streamed_depth = 256;
  k.packed = packed_tiles<Registers>;
  k.in_place = DType::bf16;
  k.direct_rows = tile_edge;
  k.direct_a = direct_tiles<Registers>;
  k.begin = [] { Registers::configure(whole_tiles); };
  k.end = [] { Registers::release(); };
  k.pack_a[index(DType::bf16)] = pack_a_squares<bf16>;
  k.pack_b[index(DType::bf16)] = pack_b_squares<bf16>;
  k.pack_a[index(DType::f32)] = pack_a_squares<float>;
  k.pack_b[index(DType::f32)] = pack_b_squares<float>;
  columns_source<float, float>(k, DType::f32);
  columns_source<float, bf16>(k, DType::bf16);
  rows_source<float, float>(k, DType::f32);
  rows_source<float, bf16>(k, DType::bf16);
  return k;
}

}  // namespace
}  // namespace tile::cpu::TILE_ISA
