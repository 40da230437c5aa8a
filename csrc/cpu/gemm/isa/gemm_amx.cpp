// Products of bf16 on AMX's tile registers. Compiled only for AVX-512.
#include "cpu/gemm/isa/gemm_tiles.h"

namespace tile::cpu::TILE_ISA {
namespace {
constexpr GemmKernels kernels = tile_kernels<AmxRegisters>();
}  // namespace

extern const GemmKernels amx_gemm = with_loops<kernels>();

}  // namespace tile::cpu::TILE_ISA
