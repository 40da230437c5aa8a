// Products of bf16 with AVX512_BF16's instruction, which multiplies two values of k at once and sums in f32;
// it treats subnormal numbers as 0. Compiled only for AVX-512.
#include <initializer_list>

#include "cpu/gemm/isa/gemm_few_rows.h"
#include "cpu/gemm/isa/gemm_loops.h"
#include "cpu/gemm/isa/gemm_pack.h"
#include "cpu/gemm/isa/gemm_pairs.h"
#include "cpu/vecmath/transpose.h"

namespace tile::cpu::TILE_ISA {

template <>
struct KernelShape<Bf16Pair> {
  struct Sum {
    Vec<float> value;
    TILE_INLINE void clear() { value = Vec<float>(0.f); }
    TILE_INLINE void add(Vec<Bf16Pair> a, Vec<Bf16Pair> b) {
      value = (Native<float>)_mm512_dpbf16_ps((__m512)value.v, (__m512bh)a.v, (__m512bh)b.v);
    }
    TILE_INLINE void add(Sum other) { value = value + other.value; }
    TILE_INLINE Vec<float> rounded() const { return value; }
  };
  using Result = float;
  static constexpr bool emulated = false;
  static constexpr int together = 2;
  static constexpr int mr = KernelShape<float>::mr, vectors = 2, nr = vectors * Vec<Bf16Pair>::lanes;
};

namespace {

constexpr int lanes = Vec<Bf16Pair>::lanes;

// Like pack() in gemm_pack.h, but for pairs along `inner`: out[outer / width][(inner + 1) / 2][width].
template <class S, int width>
void pack_pairs(long outer, long inner, const S* from, long so, long si, Bf16Pair* out) {
  // A store of a whole vector may extend into the panel's next row, which is written later.
  constexpr bool spills = width % lanes != 0;
  const long depth = (inner + 1) / 2;
  for (long o = 0; o < outer; o += width, out += width * depth) {
    const long rows = outer - o < width ? outer - o : width;
    const S* p = from + o * so;
    if (so == 1 && (!spills || width < lanes)) {
      for (long i = 0; i < depth; ++i, p += 2 * si) {
        for (int v = 0; v < width; v += lanes) {
          const long readable = rows - v;
          Vec<Bf16Pair> first(0u), second(0u);
          if (readable > 0) first = bits_of(p + v, readable);
          if (readable > 0 && 2 * i + 1 < inner) second = bits_of(p + si + v, readable);
          pair(first, second).store(out + i * width + v);
        }
      }
    } else if (si == 1 && (!spills || width < lanes)) {
      for (long i = 0; i < depth; i += lanes) {
        const long columns = depth - i < lanes ? depth - i : lanes;
        for (int v = 0; v < width; v += lanes) {
          Vec<Bf16Pair> r[lanes];
#pragma GCC unroll 16
          for (int q = 0; q < lanes; ++q)
            r[q] = v + q < rows ? pairs_of(p + (v + q) * so + 2 * i, inner - 2 * i) : Vec<Bf16Pair>(0u);
          transpose(r);
          for (int q = 0; q < columns; ++q) r[q].store(out + (i + q) * width + v);
        }
      }
    } else {
      for (long i = 0; i < depth; ++i)
        for (long q = 0; q < width; ++q) {
          const auto at = [&](long k) {
            return q < rows && k < inner ? bits_of(p[q * so + k * si]) : Bf16Pair{0};
          };
          out[i * width + q] = at(2 * i) | at(2 * i + 1) << 16;
        }
    }
  }
}
template <class S>
void pack_a_pairs(long m, long k, const MatrixView& a, void* to) {
  constexpr int width = mr<Bf16Pair>;
  each_run_of_panels<width>(m, [&](long rows, long row, long panel) {
    pack_pairs<S, width>(rows, k, static_cast<const S*>(a.data) + row * a.row_stride, a.row_stride,
                         a.column_stride, static_cast<Bf16Pair*>(to) + panel * width * ((k + 1) / 2));
  });
}
template <class S>
void pack_b_pairs(long k, long n, const MatrixView& b, void* to) {
  pack_pairs<S, nr<Bf16Pair>>(n, k, static_cast<const S*>(b.data), b.column_stride, b.row_stride,
                              static_cast<Bf16Pair*>(to));
}

constexpr GemmKernels sources() {
  GemmKernels k = kernels_of<Bf16Pair>(DType::f32);
  k.in_place = DType::bf16;
  for (const DType same : {DType::f32, DType::bf16}) {
    k.pack_a[index(same)] = same == DType::f32 ? pack_a_pairs<float> : pack_a_pairs<bf16>;
    k.pack_b[index(same)] = same == DType::f32 ? pack_b_pairs<float> : pack_b_pairs<bf16>;
  }
  columns_source<Bf16Pair, float>(k, DType::f32);
  columns_source<Bf16Pair, bf16>(k, DType::bf16);
  rows_source<Bf16Pair, float>(k, DType::f32);
  rows_source<Bf16Pair, bf16>(k, DType::bf16);
  return k;
}
constexpr GemmKernels kernels = sources();

}  // namespace

extern const GemmKernels bf16_gemm = with_loops<kernels>();

}  // namespace tile::cpu::TILE_ISA
