// Additions to memory under a predicate (red), from sm_90 on. The emulator replaces this file.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

// Adds to adjacent elements, whose address is aligned to all of them, if `wanted`.
TILE void add_global_if(bool wanted, f32* to, const f32 (&x)[1], int) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p red.global.add.f32 [%0], %1; }" ::"l"(to), "f"(x[0]),
               "r"((u32)wanted)
               : "memory");
}
TILE void add_global_if(bool wanted, f32* to, const f32 (&x)[2], int) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p red.global.add.v2.f32 [%0], {%1, %2}; }" ::"l"(to),
               "f"(x[0]), "f"(x[1]), "r"((u32)wanted)
               : "memory");
}
TILE void add_global_if(bool wanted, f32* to, const f32 (&x)[4], int) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %5, 0; @p red.global.add.v4.f32 [%0], {%1, %2, %3, %4}; }" ::"l"(to),
      "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "r"((u32)wanted)
      : "memory");
}

}  // namespace tile
