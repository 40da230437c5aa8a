// Additions to memory under a predicate, as cuda/device/predicated_add_instructions.cuh has them.
#pragma once
#include "cuda/device/atomic_instructions.cuh"

namespace tile {

template <int count>
TILE void add_global_if(bool wanted, f32* to, const f32 (&x)[count], int line) {
  if (!wanted) return;
  emulator::check_global(to, count * 4, emulator::Access::change, false, line);
  for (int i = 0; i < count; ++i) to[i] += x[i];
}

}  // namespace tile
