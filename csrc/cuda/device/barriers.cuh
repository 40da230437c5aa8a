// Barriers in shared memory, and what else warpgroups need that run different code; from sm_90 on. The
// emulator replaces this file.
//
// A barrier has phases. A phase ends when so many threads have arrived as init_barrier() says and when all
// bytes have been copied that expect_bytes() announced.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

TILE void init_barrier(SharedAddress at, int arrivals, int) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
// Makes barriers that this thread has initialized visible to copies and to the other blocks of the cluster.
TILE void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Arrives, and lets the phase wait for so many bytes.
TILE void expect_bytes(SharedAddress at, int bytes, int) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
TILE void arrive(SharedAddress at, int) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
// Arrives at the barrier of another block of the cluster at the same address. The form with release.cluster
// would add fences of the whole memory to a loop.
TILE void arrive_remote(SharedAddress at, int cta, int) {
  asm volatile(
      "{ .reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [r]; }" ::
          "r"(at),
      "r"(cta)
      : "memory");
}
// Returns when the last phase of this parity has ended. As a loop in C++ this would make ptxas run products
// one after another.
TILE void wait_for(SharedAddress at, u32 parity, int) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra passed;\n"
      "bra again;\n"
      "passed:\n"
      "}" ::"r"(at),
      "r"(parity)
      : "memory");
}

// Gives registers of the group's threads back, or waits until so many are free; `count` remain a thread.
template <int count>
TILE void give_registers(int) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
TILE void take_registers(int) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

// Returns true in one thread of the group. All threads of the group call this.
TILE bool elected_thread(int) {
  if ((threadIdx.x >> 5 & 3) != 0) return false;
  u32 mine;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(mine));
  return mine != 0;
}

// All threads of the groups that compute, so many, wait here and then see each other's writes. The barriers 1 to
// 4 are those of the groups.
template <int threads>
TILE void synchronize_groups(int) {
  asm volatile("bar.sync 5, %0;" ::"n"(threads) : "memory");
}

// Orders this thread's accesses of shared memory before those of copies and of wgmma that follow.
TILE void fence_async(int) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace tile
