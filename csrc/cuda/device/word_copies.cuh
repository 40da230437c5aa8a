// Copies of single words to shared memory. The emulator replaces this file.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

// Starts a copy of 4 bytes from global memory, or of zeros if not wanted.
TILE void copy_word_async_if(void* to, const void* from, bool wanted, int) {
  asm volatile("{ .reg .pred p; setp.eq.b32 p, %2, 0; cp.async.ca.shared.global [%0], [%1], 4, p; }" ::"r"(
                   shared_address(to)),
               "l"(from), "r"((u32)wanted)
               : "memory");
}

}  // namespace tile
