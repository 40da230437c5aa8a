// Matrix products of one instruction set as a table of functions: packing, micro-kernels, and a blocked
// product over memory.
//
// A product runs in a compute type: f32 for every float up to 32 bits, f64, i32 for integers up to 32 bits,
// i64 (both wrap). Operands are converted to it while they are packed; C is always of it, row-major with row
// stride ldc, in elements.
#pragma once
#include "cpu/isa.h"
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
  int mr, nr;  // rows of a panel of A, columns of a panel of B
  int lanes;   // packing A may write that many elements beyond its panels
  int kc;      // depth of a block in `blocked`

  // A [m x k] to panels [m / mr][k][mr], B [k x n] to panels [n / nr][k][nr], short panels filled with zeros.
  // By dtype of the source; null where that dtype does not compute in this type.
  using Pack = void (*)(long rows, long columns, const MatrixView& from, void* to);
  Pack pack_a[dtype_count];
  Pack pack_b[dtype_count];

  // C = A B, or C += A B with accumulate; any m, n, k >= 0.
  void (*packed)(long m, long n, long k, const void* packed_a, const void* packed_b, void* c, long ldc,
                 bool accumulate);
  // A row-major in the compute type, read in place.
  void (*direct_a)(long m, long n, long k, const void* a, long lda, const void* packed_b, void* c, long ldc,
                   bool accumulate);
  // Both read in place, B row-major too.
  void (*direct)(long m, long n, long k, const void* a, long lda, const void* b, long ldb, void* c, long ldc,
                 bool accumulate);

  // A whole loop over k in blocks of kc: B packed once as a strip (reusable for every block of rows with
  // these columns), then A block by block into scratch. Rows around 120 to 192 and 256 columns keep A's block
  // in L2 and a panel of B in L1.
  void (*pack_strip)(long k, long n, const MatrixView& b, DType dtype, void* strip);
  void (*blocked)(long m, long n, long k, const MatrixView& a, DType dtype, const void* strip, void* c,
                  long ldc, bool accumulate, void* scratch);

  // Sizes in elements of the compute type.
  long packed_a_size(long m, long k) const { return (m + mr - 1) / mr * mr * k + lanes; }
  long packed_b_size(long k, long n) const { return (n + nr - 1) / nr * nr * k; }
  long strip_size(long k, long n) const { return packed_b_size(k, n); }
  long scratch_size(long m, long k) const { return packed_a_size(m, k < kc ? k : kc); }
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

}  // namespace tile::cpu
