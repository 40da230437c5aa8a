// Launches that begin while the kernel before them in the stream still ends, from sm_90 on. The emulator has a
// file of this name, too.
#pragma once
#include "cuda/device/tile.cuh"

namespace tile {

// Before any access of global memory: the kernels before have ended, and what they wrote is there. The next
// one's blocks may then begin wherever this one's have left room; they wait here themselves. Each block takes
// half a microsecond for it, so that a launch of more than `most` blocks begins late and does not wait.
template <int most>
TILE void wait_for_kernels_before() {
  if ((u64)num_blocks<0>() * (u32)num_blocks<1>() * (u32)num_blocks<2>() > most) return;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
// The address is known behind that only, so that loads of an array that no one writes stay there, too.
template <class T, int n>
TILE ArrayParameter<T, n> after_kernels_before(ArrayParameter<T, n> array) {
  asm volatile("" : "+l"(array.data));
  return array;
}

}  // namespace tile
