// Products of bf16 on AMX's tile registers. Built for AVX-512 alone.
#include "cpu/gemm/isa/gemm_tiles.h"

namespace tile::cpu::TILE_ISA {
namespace {
constexpr GemmKernels kernels = tile_kernels<AmxRegisters>();
}  // namespace

extern const GemmKernels amx_gemm = with_loops<kernels>();

}  // namespace tile::cpu::TILE_ISA
