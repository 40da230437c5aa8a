// The table of one compute type: packed and direct products, and the loops over blocks of k.
#pragma once
#include "cpu/gemm_table.h"
#include "cpu/isa/gemm_kernel.h"

namespace tile::cpu::TILE_ISA {
namespace {

template <class T>
constexpr int mr = KernelShape<T>::mr;
template <class T>
constexpr int nr = KernelShape<T>::nr;
constexpr int block_depth = 256, piece_depth = 128;

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
  multiply<T, false>(m, n, k, static_cast<const T*>(a), lda, static_cast<const T*>(b), nr<T>, k * nr<T>,
                     static_cast<T*>(c), ldc, accumulate);
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
  k.block_depth = block_depth;
  k.piece_depth = piece_depth;
  k.packed = packed<T>;
  if constexpr (KernelShape<T>::together == 1) {
    k.direct_a = direct_a<T>;
    k.direct = direct<T>;
  }
  return k;
}
constexpr long panels(long n, long width) { return (n + width - 1) / width * width; }
template <class T>
const T* offset(const void* data, long elements) {
  return static_cast<const T*>(data) + elements;
}
MatrixView advance(const MatrixView& from, DType dtype, long elements) {
  // Bytes as the table of dtypes has them, without its inline functions.
  constexpr int bytes[dtype_count] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 2, 2, 4, 4, 8};
  return {offset<char>(from.data, elements * bytes[index(dtype)]), from.row_stride, from.column_stride};
}

// body(first, depth) for k in blocks.
template <class F>
TILE_INLINE void each_block(long k, long block, F body) {
  for (long at = 0; at < k; at += block) body(at, k - at < block ? k - at : block);
}

// Blocks of k follow each other, each packed as panels of its own.
template <const GemmKernels& kernels, class T>
void pack_strip(long k, long n, const MatrixView& b, DType dtype, void* strip) {
  each_block(k, block_depth, [&](long at, long depth) {
    kernels.pack_b[index(dtype)](depth, n, advance(b, dtype, at * b.row_stride),
                                 static_cast<T*>(strip) + at * panels(n, nr<T>));
  });
}
template <const GemmKernels& kernels, class T>
void pack_rows(long m, long k, const MatrixView& a, DType dtype, void* rows) {
  each_block(k, piece_depth, [&](long at, long depth) {
    kernels.pack_a[index(dtype)](m, depth, advance(a, dtype, at * a.column_stride),
                                 static_cast<T*>(rows) + at * panels(m, mr<T>));
  });
}
template <const GemmKernels& kernels, class T>
void blocked(long m, long n, long k, const MatrixView& a, DType dtype, const void* strip, void* c, long ldc,
             bool accumulate, void* scratch) {
  if (k == 0) packed<T>(m, n, 0, scratch, strip, c, ldc, accumulate);
  each_block(k, block_depth, [&](long at, long depth) {
    kernels.pack_a[index(dtype)](m, depth, advance(a, dtype, at * a.column_stride), scratch);
    packed<T>(m, n, depth, scratch, offset<T>(strip, at * panels(n, nr<T>)), c, ldc, accumulate || at > 0);
  });
}
// `blocked` with A packed before, block after block.
template <const GemmKernels& kernels, class T>
void pack_blocks(long m, long k, const MatrixView& a, DType dtype, void* blocks) {
  each_block(k, block_depth, [&](long at, long depth) {
    kernels.pack_a[index(dtype)](m, depth, advance(a, dtype, at * a.column_stride),
                                 static_cast<T*>(blocks) + at * panels(m, mr<T>));
  });
}
template <class T>
void packed_blocks(long m, long n, long k, const void* blocks, const void* strip, void* c, long ldc,
                   bool accumulate) {
  if (k == 0) packed<T>(m, n, 0, blocks, strip, c, ldc, accumulate);
  each_block(k, block_depth, [&](long at, long depth) {
    packed<T>(m, n, depth, offset<T>(blocks, at * panels(m, mr<T>)), offset<T>(strip, at * panels(n, nr<T>)),
              c, ldc, accumulate || at > 0);
  });
}
template <const GemmKernels& kernels, class T>
void streamed(long m, long n, long k, const void* rows, const MatrixView& b, DType dtype, void* c, long ldc,
              bool accumulate, void* scratch) {
  if (k == 0) packed<T>(m, n, 0, rows, scratch, c, ldc, accumulate);
  each_block(k, piece_depth, [&](long at, long depth) {
    kernels.pack_b[index(dtype)](depth, n, advance(b, dtype, at * b.row_stride), scratch);
    packed<T>(m, n, depth, offset<T>(rows, at * panels(m, mr<T>)), scratch, c, ldc, accumulate || at > 0);
  });
}
template <const GemmKernels& kernels, class T>
constexpr GemmKernels with_loops() {
  GemmKernels k = kernels;
  k.pack_strip = pack_strip<kernels, T>;
  k.blocked = blocked<kernels, T>;
  k.pack_blocks = pack_blocks<kernels, T>;
  k.packed_blocks = packed_blocks<T>;
  k.pack_rows = pack_rows<kernels, T>;
  k.streamed = streamed<kernels, T>;
  return k;
}

}  // namespace
}  // namespace tile::cpu::TILE_ISA
