// Launches that start while the previous kernel in the stream ends, from sm_90 on. The emulator replaces this
// file.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

// Called before any access of global memory: waits until the previous kernels have ended and their writes are
// visible. The next kernel's blocks may then start on free multiprocessors, where they wait themselves. The
// branch keeps loads of constant arrays after the wait: the compiler does not hoist loads across a
// conditional wait.
TILE void wait_for_kernels_before(u32 starts_early) {
  if (!starts_early) return;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace tile
