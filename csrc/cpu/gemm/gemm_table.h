// Matrix products of one instruction set as a table of functions: packing, micro-kernels, and a blocked
// product over memory.
//
// A product runs in a compute type: f32 for every float up to 32 bits, f64, i32 for integers up to 32 bits,
// i64 (both wrap). Operands are converted to it while they are packed; C is always of it, row-major with row
// stride ldc, in elements.
#pragma once
#include "cpu/vecmath/isa.h"
#include "ir/dtype.h"

namespace tile::cpu {

// A matrix in memory, any strides (in elements, also negative or 0).
struct MatrixView {
  const void* data;
  long row_stride;
  long column_stride;
};

struct GemmKernels {
  DType compute;
  int element_bytes;
  int mr, nr;                // rows of a panel of A, columns of a panel of B
  int lanes;                 // packing A may write that many elements beyond its panels
  int together, depth_step;  // values of k in an element; what a panel's depth is a multiple of, in values
  int block_depth, piece_depth;  // of k at a time in `blocked` and in `streamed`

  // A [m x k] to panels [m / mr][k][mr], the last two of which may be halves (isa/gemm_panels.h), B [k x n]
  // to panels [n / nr][k][nr], short panels filled with zeros. By dtype of the source; null where that dtype
  // does not compute in this type.
  using Pack = void (*)(long rows, long columns, const MatrixView& from, void* to);
  Pack pack_a[dtype_count];
  Pack pack_b[dtype_count];

  // C = A B, or C += A B with accumulate; any m, n, k >= 0.
  void (*packed)(long m, long n, long k, const void* packed_a, const void* packed_b, void* c, long ldc,
                 bool accumulate);
  // A row-major, of the dtype `in_place`, read where it is: m a multiple of direct_rows, k of depth_step, the
  // row stride of `together`, and the address that of an element.
  DType in_place;
  int direct_rows;
  void (*direct_a)(long m, long n, long k, const void* a, long lda, const void* packed_b, void* c, long ldc,
                   bool accumulate);
  // Both read in place, B row-major too. Null where panels do not hold the compute type.
  void (*direct)(long m, long n, long k, const void* a, long lda, const void* b, long ldb, void* c, long ldc,
                 bool accumulate);

  // A whole loop over k with operands in memory, in two forms. `scratch` is as long as blocked_scratch_size
  // or streamed_scratch_size says. blocked: B packed once by pack_strip, to be used for every block of rows
  // with these columns; A block by block into scratch. 120 to 192 rows and 256 to 512 columns keep A's block
  // in L2 and a panel of B in L1. Parts of a strip, strip_parts of them, may be packed at once.
  void (*pack_strip)(long k, long n, const MatrixView& b, DType dtype, void* strip, long part);
  void (*blocked)(long m, long n, long k, const MatrixView& a, DType dtype, const void* strip, void* c,
                  long ldc, bool accumulate, void* scratch);
  // The same with A packed by pack_blocks, for as many strips as there are; in block_parts.
  void (*pack_blocks)(long m, long k, const MatrixView& a, DType dtype, void* blocks, long part);
  void (*packed_blocks)(long m, long n, long k, const void* blocks, const void* strip, void* c, long ldc,
                        bool accumulate);
  // streamed: for few rows in all (up to 128), where B is used once: A packed once by pack_rows, to be used
  // for every block of columns (256 of them are best); B piece by piece into scratch.
  void (*pack_rows)(long m, long k, const MatrixView& a, DType dtype, void* rows);
  void (*streamed)(long m, long n, long k, const void* rows, const MatrixView& b, DType dtype, void* c,
                   long ldc, bool accumulate, void* scratch);

  // Around the products of a thread's piece of work: takes what the micro-kernel needs beyond the registers
  // that there always are, and gives it back. Null: nothing.
  void (*begin)();
  void (*end)();

  long block_parts(long k) const { return (k + block_depth - 1) / block_depth; }
  // Columns of a part of a strip: whole panels, about 128.
  long part_columns() const { return nr < 128 ? 128 / nr * nr : nr; }
  long strip_parts(long k, long n) const {
    return block_parts(k) * ((n + part_columns() - 1) / part_columns());
  }

  // Sizes in elements of the compute type.
  long panel_depth(long k) const { return (k + depth_step - 1) / depth_step * depth_step / together; }
  long packed_a_size(long m, long k) const { return (m + mr - 1) / mr * mr * panel_depth(k) + lanes; }
  long packed_b_size(long k, long n) const { return (n + nr - 1) / nr * nr * panel_depth(k); }
  long strip_size(long k, long n) const { return packed_b_size(k, n); }
  // Each part has its slack, as others may be packed beside it.
  long blocks_size(long m, long k) const { return packed_a_size(m, k) + block_parts(k) * lanes; }
  long blocked_scratch_size(long m, long k) const {
    return packed_a_size(m, k < block_depth ? k : block_depth);
  }
  long rows_size(long m, long k) const { return packed_a_size(m, k); }
  long streamed_scratch_size(long k, long n) const {
    return packed_b_size(k < piece_depth ? k : piece_depth, n);
  }
};

struct GemmTable {
  GemmKernels f32, f64, i32, i64;
  // The kernels that operands of a dtype compute with; every dtype has one.
  const GemmKernels& of(DType dtype) const {
    for (const GemmKernels* kernels : {&f32, &f64, &i32})
      if (kernels->pack_a[static_cast<int>(dtype)]) return *kernels;
    return i64;
  }
};

TILE_DECLARE_ISA_TABLE(GemmTable, gemm_table);

// Products of bf16, which a chip has an instruction for; sources are bf16, and f32 that holds bf16's numbers.
// Null where this machine does not have it.
const GemmKernels* bf16_gemm(Isa isa);
// The same on AMX's tile registers.
const GemmKernels* amx_gemm(Isa isa);
// Returns true if this process multiplies bf16 there, by its variables.
bool uses_amx();

// Returns true if this machine's products of bf16 read it as it is, and do not widen it.
bool multiplies_bf16();

// The kernels of a product of these operands that adds up in `sum`.
const GemmKernels& gemm_kernels(DType a, DType b, DType sum);

}  // namespace tile::cpu
