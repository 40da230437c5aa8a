// Launches that begin while the kernel before them in the stream still ends, from sm_90 on. The emulator has a
// file of this name, too.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

// Before any access of global memory: the kernels before have ended, and what they wrote is there. The next
// one's blocks may then begin wherever this one's have left room; they wait here themselves. The branch is what
// keeps loads of arrays that no one writes behind it: what may be skipped is not looked past.
TILE void wait_for_kernels_before(u32 starts_early) {
  if (!starts_early) return;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace tile
