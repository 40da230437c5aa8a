// The counters from which CTAs of a launch draw blocks, in global memory. The emulator replaces this file.
//
// A launch is given one that no other launch uses at the same time. All are 0 when the code is loaded, and a
// launch leaves its own at 0: launches that run one after another may have the same.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

// The number is that of BlockCounters in csrc/runtime.
struct BlockCounter {
  u32 drawn, closed;  // blocks, and CTAs that draw no more
};
__device__ BlockCounter block_counters[8192];

// Returns the next block behind the first ones, which CTAs begin with.
TILE i32 draw_block(u32 counter, i32 begun, int) {
  return begun + (i32)atomicAdd(&block_counters[counter].drawn, 1u);
}
// The last CTA comes behind all draws: each closes behind its own. Its increment makes `closed` 0 again.
TILE void close_queue(u32 counter, int) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(&block_counters[counter].closed), "r"(gridDim.x - 1)
               : "memory");
  if (before == gridDim.x - 1) block_counters[counter].drawn = 0;
}

// Returns the number that all threads of the warp pass, in a uniform register.
TILE i32 same_in_warp(i32 x) {
  i32 same;
  asm volatile("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(same) : "r"(x));
  return same;
}

}  // namespace tile
