// The products on tile registers with a software twin in the registers' place: every chip with AVX-512 runs
// it.
#pragma once
#include "cpu/gemm/gemm_table.h"

namespace tile::cpu {

struct TileTwin {
  const GemmKernels* kernels;  // null: the instruction set has no vectors of 64 bytes
  int (*faults)();             // how often registers were used outside of begin and end, or shaped otherwise
};
TILE_DECLARE_ISA_TABLE(TileTwin, tile_twin);

}  // namespace tile::cpu
