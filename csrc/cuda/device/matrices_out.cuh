// Stores of matrices from registers to shared memory (stmatrix), from sm_90 on. The emulator replaces this
// file.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

// Stores four matrices of 8 x 8 elements of 16 bits: lane l gives the address of row l % 8 of matrix l / 8,
// and a word of each matrix: row l / 4, columns l % 4 * 2 and the next. `transposed` transposes each.
template <bool transposed = false>
TILE void store_matrices(SharedAddress row, u32 a, u32 b, u32 c, u32 d, int) {
  if (transposed)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
}

}  // namespace tile
