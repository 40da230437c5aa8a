// A table of functions for the matrix products of one instruction set: packing, micro-kernels, and blocked
// products over memory.
//
// A product runs in a compute type: f32 for every float up to 32 bits, f64, i32 for integers up to 32 bits,
// or i64 (integers wrap). Operands are converted to it while they are packed. C always has the compute type
// and is row-major with row stride ldc, in elements.
#pragma once
#include "cpu/vecmath/isa.h"
#include "ir/dtype.h"

namespace tile::cpu {

// A matrix in memory with any strides, in elements, which may be negative or 0.
struct MatrixView {
  const void* data;
  long row_stride;
  long column_stride;
};

// Products of few rows. `rows` makes A row-major and of another type, of at most 8 bytes an element. Indexed
// by the source's dtype; null if there is none. Where B has contiguous rows, C is added to the sums of `run`
// values of k each: an even number, or all of k. The order of a sum does not depend on m and n.
struct FewRows {
  void (*rows[dtype_count])(long m, long k, const MatrixView& a, void* to);
  void (*multiply[dtype_count])(long m, long n, long k, long run, const void* rows, const MatrixView& b,
                                void* c, long ldc, bool accumulate);
};

struct GemmKernels {
  DType compute;
  int element_bytes;
  int mr, nr;                // rows of a panel of A, columns of a panel of B
  int lanes;                 // packing A may write that many elements past its panels
  int together, depth_step;  // values of k per element; a panel's depth is a multiple of depth_step values
  int block_depth, streamed_depth;  // values of k per block in `blocked` and in `streamed`

  // Packing: A [m x k] to panels [m / mr][k][mr], of which the last two may be halves (isa/gemm_panels.h),
  // and B [k x n] to panels [n / nr][k][nr]. Short panels are filled with zeros. Indexed by the source's
  // dtype; null if that dtype does not compute in this type.
  using Pack = void (*)(long rows, long columns, const MatrixView& from, void* to);
  Pack pack_a[dtype_count];
  Pack pack_b[dtype_count];

  // Computes C = A B, or C += A B if `accumulate`; m, n, k >= 0.
  void (*packed)(long m, long n, long k, const void* packed_a, const void* packed_b, void* c, long ldc,
                 bool accumulate);
  // A is row-major and read in place, with dtype `in_place`. m is a multiple of direct_rows, k of depth_step,
  // and the row stride of `together`; the address is aligned for an element.
  DType in_place;
  int direct_rows;
  void (*direct_a)(long m, long n, long k, const void* a, long lda, const void* packed_b, void* c, long ldc,
                   bool accumulate);
  // Both operands are row-major and read in place. Null if panels do not hold the compute type.
  void (*direct)(long m, long n, long k, const void* a, long lda, const void* b, long ldb, void* c, long ldc,
                 bool accumulate);

  // A whole loop over k with operands in memory, in two forms. `scratch` has the length given by
  // blocked_scratch_size or streamed_scratch_size.
  //
  // `blocked`: pack_strip packs B once, for all blocks of rows with these columns; A is packed block by block
  // into scratch. With 120 to 192 rows and 256 to 512 columns, A's block fits L2 and a panel of B fits L1.
  // The strip_parts parts of a strip may be packed in parallel.
  void (*pack_strip)(long k, long n, const MatrixView& b, DType dtype, void* strip, long part);
  void (*blocked)(long m, long n, long k, const MatrixView& a, DType dtype, const void* strip, void* c,
                  long ldc, bool accumulate, void* scratch);
  // The same with A packed by pack_blocks, for any number of strips; it has block_parts parts.
  void (*pack_blocks)(long m, long k, const MatrixView& a, DType dtype, void* blocks, long part);
  void (*packed_blocks)(long m, long n, long k, const void* blocks, const void* strip, void* c, long ldc,
                        bool accumulate);
  // `streamed`: for few rows in all (up to 128), where B is used once. pack_rows packs A once, for all blocks
  // of columns (best 256 wide); B is packed piece by piece into scratch.
  void (*pack_rows)(long m, long k, const MatrixView& a, DType dtype, void* rows);
  void (*streamed)(long m, long n, long k, const void* rows, const MatrixView& b, DType dtype, void* c,
                   long ldc, bool accumulate, void* scratch);

  // For at most most_few_rows rows: B is read in place, which has contiguous columns or rows.
  static constexpr long most_few_rows = 8;
  FewRows columns_in_place, rows_in_place;
  // Returns the functions for so many rows of A and this B, or null.
  const FewRows* reads_in_place(long rows, DType a, const MatrixView& b, DType b_dtype) const {
    if (rows > most_few_rows || (b.row_stride != 1 && b.column_stride != 1)) return nullptr;
    const FewRows& functions = b.row_stride == 1 ? columns_in_place : rows_in_place;
    return functions.rows[static_cast<int>(a)] && functions.multiply[static_cast<int>(b_dtype)] ? &functions
                                                                                                : nullptr;
  }

  // Called before and after a thread's products: they acquire and release additional registers that the
  // micro-kernel needs. Null if there are none.
  void (*begin)();
  void (*end)();

  long block_parts(long k) const { return (k + block_depth - 1) / block_depth; }
  // Columns of a part of a strip: whole panels, about 128 columns.
  long part_columns() const { return nr < 128 ? 128 / nr * nr : nr; }
  long strip_parts(long k, long n) const {
    return block_parts(k) * ((n + part_columns() - 1) / part_columns());
  }

  // Sizes in elements of the compute type.
  long panel_depth(long k) const { return (k + depth_step - 1) / depth_step * depth_step / together; }
  long packed_a_size(long m, long k) const { return (m + mr - 1) / mr * mr * panel_depth(k) + lanes; }
  long packed_b_size(long k, long n) const { return (n + nr - 1) / nr * nr * panel_depth(k); }
  long strip_size(long k, long n) const { return packed_b_size(k, n); }
  // Each part has its own slack, since others may be packed next to it at the same time.
  long blocks_size(long m, long k) const { return packed_a_size(m, k) + block_parts(k) * lanes; }
  long blocked_scratch_size(long m, long k) const {
    return packed_a_size(m, k < block_depth ? k : block_depth);
  }
  long rows_size(long m, long k) const { return packed_a_size(m, k); }
  long streamed_scratch_size(long k, long n) const {
    return packed_b_size(k < streamed_depth ? k : streamed_depth, n);
  }
};

struct GemmTable {
  GemmKernels f32, f64, i32, i64;
  // Returns the kernels that operands of a dtype compute with; every dtype has one.
  const GemmKernels& of(DType dtype) const {
    for (const GemmKernels* kernels : {&f32, &f64, &i32})
      if (kernels->pack_a[static_cast<int>(dtype)]) return *kernels;
    return i64;
  }
};

TILE_DECLARE_ISA_TABLE(GemmTable, gemm_table);

// Products of bf16 with the chip's bf16 instruction. Sources are bf16, or f32 that holds bf16 values. Null if
// this machine does not have it.
const GemmKernels* bf16_gemm(Isa isa);
// The same with AMX's tile registers.
const GemmKernels* amx_gemm(Isa isa);
// Returns true if this process multiplies bf16 with AMX, as its environment variables allow.
bool uses_amx();

// Returns true if this machine multiplies bf16 directly, without widening it.
bool multiplies_bf16();

// Returns the kernels for a product of these operands that accumulates in `sum`.
const GemmKernels& gemm_kernels(DType a, DType b, DType sum);

}  // namespace tile::cpu
