// Packs the right operand of a blocked product, the last part first, since threads may use any order.
#pragma once
#include "cpu/gemm/gemm_table.h"

namespace tile::cpu {

inline void pack_strip(const GemmKernels& kernels, long k, long n, const MatrixView& b, DType dtype,
                       void* strip) {
  for (long part = kernels.strip_parts(k, n); part-- > 0;) kernels.pack_strip(k, n, b, dtype, strip, part);
}

}  // namespace tile::cpu
