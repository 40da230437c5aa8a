// The products on tile registers with a software model of the registers, which runs on every chip with
// AVX-512.
#pragma once
#include "cpu/gemm/gemm_table.h"

namespace tile::cpu {

struct TileTwin {
  const GemmKernels* kernels;  // null: the instruction set has no vectors of 64 bytes
  int (*faults)();             // uses of registers outside of begin and end, or with the wrong shape
};
TILE_DECLARE_ISA_TABLE(TileTwin, tile_twin);

}  // namespace tile::cpu
