// Packs matrices into the panels that the micro-kernels read, and converts them to the compute type.
#pragma once
#include "cpu/gemm/gemm_table.h"
#include "cpu/gemm/isa/gemm_panels.h"
#include "cpu/vecmath/convert.h"
#include "cpu/vecmath/transpose.h"

namespace tile::cpu::TILE_ISA {

// Loads a Vec<T> from contiguous S.
template <class T, class S>
TILE_INLINE Vec<T> load_as(const S* p, long n) {
  constexpr int lanes = Vec<T>::lanes;
  if constexpr (std::is_same_v<S, T>) {
    return n >= lanes ? Vec<T>::load(p) : Vec<T>::load(p, n);
  } else if constexpr (std::is_same_v<T, float> && (std::is_same_v<S, bf16> || std::is_same_v<S, f16>)) {
    return n >= lanes ? load_half<For::arithmetic>(p) : load_half<For::arithmetic>(p, n);
  } else {
    T lane[lanes] = {};
    for (int i = 0; i < lanes && i < n; ++i) lane[i] = cast<T>(p[i]);
    return Vec<T>::load(lane);
  }
}

// Packs a vector of columns of a whole panel whose rows are `so` apart, without bounds checks.
template <class T, class S, int width>
TILE_INLINE void pack_square(const S* from, long so, T* out) {
  using V = Vec<T>;
  constexpr int lanes = V::lanes;
#pragma GCC unroll 4
  for (int v = 0; v < width; v += lanes) {
    V r[lanes];
#pragma GCC unroll 16
    for (int q = 0; q < lanes; ++q) r[q] = v + q < width ? load_as<T>(from + (v + q) * so, lanes) : V(T(0));
    transpose(r);
#pragma GCC unroll 16
    for (int q = 0; q < lanes; ++q) r[q].store(out + q * width + v);
  }
}

// Packs whole panels of contiguous rows, several panels at once row by row, so that memory is read in order.
// Returns how far along `outer` they reach.
template <class T, class S, int width>
TILE_INLINE long pack_row_by_row(long outer, long inner, const S* from, long si, T* out) {
  constexpr long together = 8, lanes = Vec<T>::lanes;
  const long panels = outer / width;
  for (long first = 0; first < panels; first += together) {
    const long count = panels - first < together ? panels - first : together;
    for (long i = 0; i < inner; ++i)
      for (long panel = first; panel < first + count; ++panel)
#pragma GCC unroll 4
        for (int v = 0; v < width; v += lanes)
          load_as<T>(from + i * si + panel * width + v, lanes).store(out + (panel * inner + i) * width + v);
  }
  return panels * width;
}

// Packs panels of `width` along the first ("outer") direction: out[outer / width][inner][width], element (o,
// i) at o so + i si. For A, outer = m and inner = k; for B, outer = n and inner = k.
template <class T, class S, int width>
static void pack(long outer, long inner, const S* from, long so, long si, T* out) {
  using V = Vec<T>;
  constexpr int lanes = V::lanes;
  // A store of a whole vector may extend into the panel's next row, which is written later, and for the last
  // row into the slack after the panels. If the width is a multiple of the vector, stores do not extend.
  constexpr bool spills = width % lanes != 0;
  long o = 0;
  if (so == 1 && !spills) {
    o = pack_row_by_row<T, S, width>(outer, inner, from, si, out);
    out += o * inner;
  }
  for (; o < outer; o += width, out += width * inner) {
    const long rows = outer - o < width ? outer - o : width;
    const S* p = from + o * so;
    long i = 0;
    if (so == 1 && (!spills || width < lanes)) {
      const long readable = outer - o;  // contiguous elements from p on
      for (; i < inner; ++i, p += si) {
#pragma GCC unroll 4
        for (int v = 0; v < width; v += lanes) {
          const V x = v < readable ? load_as<T>(p + v, readable - v) : V(T(0));
          x.store(out + i * width + v);
        }
      }
    } else if (si == 1 && (!spills || width < lanes)) {
      if (rows == width)
        for (; i + lanes <= inner; i += lanes) pack_square<T, S, width>(p + i, so, out + i * width);
      for (; i < inner; i += lanes) {
        const long columns = inner - i < lanes ? inner - i : lanes;
        for (int v = 0; v < width; v += lanes) {
          V r[lanes];
#pragma GCC unroll 16
          for (int q = 0; q < lanes; ++q)
            r[q] = v + q < rows ? load_as<T>(p + (v + q) * so + i, columns) : V(T(0));
          transpose(r);
          for (int q = 0; q < columns; ++q) r[q].store(out + (i + q) * width + v);
        }
      }
    } else {
      for (; i < inner; ++i)
        for (long q = 0; q < width; ++q) out[i * width + q] = q < rows ? cast<T>(p[q * so + i * si]) : T(0);
    }
  }
}

// Calls body(rows, first row, first panel) for runs of consecutive equal panels.
template <int mr, class F>
TILE_INLINE void each_run_of_panels(long m, F body) {
  constexpr long half = half_rows(mr);
  const long left = m % mr + mr, whole = halves(mr, left) && m >= left ? m - left : m;
  if (whole > 0) body(whole, 0, 0);
  for (long row = whole, panel = whole / mr; row < m; row += half, ++panel) body(half, row, panel);
}
template <class T, class S, int mr>
static void pack_a(long m, long k, const MatrixView& a, void* to) {
  each_run_of_panels<mr>(m, [&](long rows, long row, long panel) {
    pack<T, S, mr>(rows, k, static_cast<const S*>(a.data) + row * a.row_stride, a.row_stride, a.column_stride,
                   static_cast<T*>(to) + panel * mr * k);
  });
}
template <class T, class S, int nr>
static void pack_b(long k, long n, const MatrixView& b, void* to) {
  pack<T, S, nr>(n, k, static_cast<const S*>(b.data), b.column_stride, b.row_stride, static_cast<T*>(to));
}

}  // namespace tile::cpu::TILE_ISA
