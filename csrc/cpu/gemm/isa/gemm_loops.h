// The table of one compute type: packed and direct products, and the loops over blocks of k.
#pragma once
#include "cpu/gemm/gemm_table.h"
#include "cpu/gemm/isa/gemm_kernel.h"

namespace tile::cpu::TILE_ISA {
namespace {

template <class T>
constexpr int mr = KernelShape<T>::mr;
template <class T>
constexpr int nr = KernelShape<T>::nr;
constexpr int block_depth = 256, streamed_depth = 128;

template <class T>
using Result = typename KernelShape<T>::Result;

template <class T>
void packed(long m, long n, long k, const void* a, const void* b, void* c, long ldc, bool accumulate) {
  constexpr int together = KernelShape<T>::together;
  k = (k + together - 1) / together;
  multiply<T, true>(m, n, k, static_cast<const T*>(a), 0, static_cast<const T*>(b), nr<T>, k * nr<T>,
                    static_cast<Result<T>*>(c), ldc, accumulate);
}
template <class T>
void direct_a(long m, long n, long k, const void* a, long lda, const void* b, void* c, long ldc,
              bool accumulate) {
  constexpr int together = KernelShape<T>::together;
  k /= together;
  multiply<T, false>(m, n, k, static_cast<const T*>(a), lda / together, static_cast<const T*>(b), nr<T>,
                     k * nr<T>, static_cast<Result<T>*>(c), ldc, accumulate);
}
template <class T>
void direct(long m, long n, long k, const void* a, long lda, const void* b, long ldb, void* c, long ldc,
            bool accumulate) {
  multiply<T, false>(m, n, k, static_cast<const T*>(a), lda, static_cast<const T*>(b), ldb, nr<T>,
                     static_cast<T*>(c), ldc, accumulate);
}

constexpr int index(DType dtype) { return static_cast<int>(dtype); }

template <class T>
constexpr GemmKernels kernels_of(DType compute) {
  GemmKernels k{};
  k.compute = compute;
  k.element_bytes = sizeof(T);
  k.mr = mr<T>;
  k.nr = nr<T>;
  k.lanes = Vec<T>::lanes;
  k.together = k.depth_step = KernelShape<T>::together;
  k.block_depth = block_depth;
  k.streamed_depth = streamed_depth;
  k.packed = packed<T>;
  k.in_place = compute;
  k.direct_rows = 1;
  k.direct_a = direct_a<T>;
  if constexpr (KernelShape<T>::together == 1) k.direct = direct<T>;
  return k;
}
constexpr long panels(long n, long width) { return (n + width - 1) / width * width; }
template <class T>
const T* offset(const void* data, long elements) {
  return static_cast<const T*>(data) + elements;
}
// Returns the panels of `n` rows or columns at depth k = at; each block before is a multiple of depth_step.
template <const GemmKernels& kernels>
const char* panels_at(const void* data, long at, long n, long width) {
  return offset<char>(data, at / kernels.together * panels(n, width) * kernels.element_bytes);
}
template <const GemmKernels& kernels>
char* panels_at(void* data, long at, long n, long width) {
  return const_cast<char*>(panels_at<kernels>(static_cast<const void*>(data), at, n, width));
}
MatrixView advance(const MatrixView& from, DType dtype, long elements) {
  // Repeats the bytes of the dtype table, to avoid its inline functions.
  constexpr int bytes[dtype_count] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 2, 2, 4, 4, 8};
  return {offset<char>(from.data, elements * bytes[index(dtype)]), from.row_stride, from.column_stride};
}

// Calls body(first, depth) for k in blocks.
template <class F>
TILE_INLINE void each_block(long k, long block, F body) {
  for (long at = 0; at < k; at += block) body(at, k - at < block ? k - at : block);
}

// The block of k that contains a part.
struct KBlock {
  long at, depth;
};
template <const GemmKernels& kernels>
KBlock block_of(long k, long block) {
  const long at = block * kernels.block_depth;
  return {at, k - at < kernels.block_depth ? k - at : kernels.block_depth};
}

// Blocks of k are consecutive, and each has its own panels. A part is some of a block's panels.
template <const GemmKernels& kernels>
void pack_strip(long k, long n, const MatrixView& b, DType dtype, void* strip, long part) {
  const long blocks = kernels.block_parts(k), width = kernels.part_columns();
  const KBlock block = block_of<kernels>(k, part % blocks);
  const long first = part / blocks * width, count = n - first < width ? n - first : width;
  MatrixView from = advance(b, dtype, block.at * b.row_stride);
  from = {advance(from, dtype, first * b.column_stride).data, b.row_stride, b.column_stride};
  char* const panels = panels_at<kernels>(strip, block.at, n, kernels.nr);
  kernels.pack_b[index(dtype)](block.depth, count, from,
                               panels + first * kernels.panel_depth(block.depth) * kernels.element_bytes);
}
template <const GemmKernels& kernels>
void pack_rows(long m, long k, const MatrixView& a, DType dtype, void* rows) {
  each_block(k, kernels.streamed_depth, [&](long at, long depth) {
    kernels.pack_a[index(dtype)](m, depth, advance(a, dtype, at * a.column_stride),
                                 panels_at<kernels>(rows, at, m, kernels.mr));
  });
}
template <const GemmKernels& kernels>
void blocked(long m, long n, long k, const MatrixView& a, DType dtype, const void* strip, void* c, long ldc,
             bool accumulate, void* scratch) {
  if (k == 0) kernels.packed(m, n, 0, scratch, strip, c, ldc, accumulate);
  each_block(k, kernels.block_depth, [&](long at, long depth) {
    kernels.pack_a[index(dtype)](m, depth, advance(a, dtype, at * a.column_stride), scratch);
    kernels.packed(m, n, depth, scratch, panels_at<kernels>(strip, at, n, kernels.nr), c, ldc,
                   accumulate || at > 0);
  });
}
// `blocked` with A packed in advance, block after block, each followed by the slack that packing may write.
template <const GemmKernels& kernels>
long slack_before(long at) {
  return at / kernels.block_depth * kernels.lanes * kernels.element_bytes;
}
template <const GemmKernels& kernels>
void pack_blocks(long m, long k, const MatrixView& a, DType dtype, void* blocks, long part) {
  const KBlock block = block_of<kernels>(k, part);
  kernels.pack_a[index(dtype)](
      m, block.depth, advance(a, dtype, block.at * a.column_stride),
      panels_at<kernels>(blocks, block.at, m, kernels.mr) + slack_before<kernels>(block.at));
}
template <const GemmKernels& kernels>
void packed_blocks(long m, long n, long k, const void* blocks, const void* strip, void* c, long ldc,
                   bool accumulate) {
  if (k == 0) kernels.packed(m, n, 0, blocks, strip, c, ldc, accumulate);
  each_block(k, kernels.block_depth, [&](long at, long depth) {
    kernels.packed(m, n, depth, panels_at<kernels>(blocks, at, m, kernels.mr) + slack_before<kernels>(at),
                   panels_at<kernels>(strip, at, n, kernels.nr), c, ldc, accumulate || at > 0);
  });
}
template <const GemmKernels& kernels>
void streamed(long m, long n, long k, const void* rows, const MatrixView& b, DType dtype, void* c, long ldc,
              bool accumulate, void* scratch) {
  if (k == 0) kernels.packed(m, n, 0, rows, scratch, c, ldc, accumulate);
  each_block(k, kernels.streamed_depth, [&](long at, long depth) {
    kernels.pack_b[index(dtype)](depth, n, advance(b, dtype, at * b.row_stride), scratch);
    kernels.packed(m, n, depth, panels_at<kernels>(rows, at, m, kernels.mr), scratch, c, ldc,
                   accumulate || at > 0);
  });
}
template <const GemmKernels& kernels>
constexpr GemmKernels with_loops() {
  GemmKernels k = kernels;
  k.pack_strip = pack_strip<kernels>;
  k.blocked = blocked<kernels>;
  k.pack_blocks = pack_blocks<kernels>;
  k.packed_blocks = packed_blocks<kernels>;
  k.pack_rows = pack_rows<kernels>;
  k.streamed = streamed<kernels>;
  return k;
}

}  // namespace
}  // namespace tile::cpu::TILE_ISA
