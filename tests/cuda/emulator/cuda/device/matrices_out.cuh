// Stores of matrices to shared memory, on the host; replaces the file of this name in csrc.
#pragma once
#include "cuda/device/machine.cuh"
#include "cuda/emulator/asynchronous.h"

namespace tile {

template <bool transposed = false>
TILE void store_matrices(SharedAddress row, u32 a, u32 b, u32 c, u32 d, int line,
                         const char* file = __builtin_FILE(), int at = __builtin_LINE()) {
  const u32 words[4] = {a, b, c, d};
  emulator::store_matrices((const void*)row, words, transposed, {"the stmatrix", line, file, at});
}

}  // namespace tile
