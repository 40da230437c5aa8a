// Selects the kernels of a product by its dtypes and the machine.
#include "cpu/gemm/gemm_table.h"

#include "support/env.h"

namespace tile::cpu {

#ifdef TILE_BF16_GEMM
namespace avx512 {
extern const GemmKernels bf16_gemm;
}
const GemmKernels* bf16_gemm(Isa isa) {
  return isa == Isa::avx512 && supports_bf16() ? &avx512::bf16_gemm : nullptr;
}
#else
const GemmKernels* bf16_gemm(Isa) { return nullptr; }
#endif

#ifdef TILE_AMX_GEMM
namespace avx512 {
extern const GemmKernels amx_gemm;
}
const GemmKernels* amx_gemm(Isa isa) {
  return isa == Isa::avx512 && supports_amx() ? &avx512::amx_gemm : nullptr;
}
#else
const GemmKernels* amx_gemm(Isa) { return nullptr; }
#endif

bool uses_amx() {
  static const bool uses =
      choose_amx(active_isa(), environment("TILE_AMX")) && amx_gemm(active_isa()) != nullptr;
  return uses;
}

namespace {
// Returns null if bf16 is multiplied like other floats.
const GemmKernels* best_bf16_gemm() {
  static const GemmKernels* const best = uses_amx()       ? amx_gemm(active_isa())
                                         : prefers_bf16() ? bf16_gemm(active_isa())
                                                          : nullptr;
  return best;
}
}  // namespace

bool multiplies_bf16() { return best_bf16_gemm() != nullptr; }

const GemmKernels& gemm_kernels(DType a, DType b, DType sum) {
  if (a == DType::bf16 && b == DType::bf16)
    if (const GemmKernels* best = best_bf16_gemm()) return *best;
  return gemm_table().of(sum == DType::f16 ? DType::f32 : sum);
}

}  // namespace tile::cpu
