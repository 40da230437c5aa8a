// Rings of stages in shared memory, which a producer thread fills and groups of 128 threads read. A stage has
// two barriers: full, at which its copies arrive, and empty, at which each group arrives once its products
// have read the stage.
//
// R describes a ring: stages, bytes of a stage, bytes that are copied to it, groups (the number that arrive:
// groups, or their warps where these read the stage to registers), and the offsets of the first stage and of the
// first barriers of either kind.
#pragma once
#include "cuda/device/barriers.cuh"
#include "cuda/device/tensor_copies.cuh"
#include "cuda/device/warps.cuh"

namespace tile {

// This iteration's stage. The phase changes each time that the ring starts again. It is the parity with which
// a reader of the stage waits for its copies; a writer waits with the other parity, so that it does not wait
// in the first round.
struct Ring {
  u32 stage = 0, phase = 0;
  i32 held = -1;  // the stage that products in flight may still read, or -1
  template <int stages>
  TILE void next() {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

template <class R>
TILE void init_ring(SharedAddress memory, int line) {
  TILE_UNROLL
  for (int i = 0; i < R::stages; ++i) {
    init_barrier(memory + R::full + 8 * i, 1, line);
    init_barrier(memory + R::empty + 8 * i, R::groups, line);
  }
}
template <class R>
TILE SharedAddress stage_address(const Ring& ring, SharedAddress memory) {
  return memory + R::offset + ring.stage * R::bytes;
}
template <class R>
TILE SharedAddress full_barrier(const Ring& ring, SharedAddress memory) {
  return memory + R::full + 8 * ring.stage;
}

template <class R>
TILE void fill_stage(const Ring& ring, SharedAddress memory, int line) {
  wait_for(memory + R::empty + 8 * ring.stage, ring.phase ^ 1, line);
  expect_bytes(full_barrier<R>(ring, memory), R::copied, line);
}
template <class R>
TILE void wait_for_stage(const Ring& ring, SharedAddress memory, int line) {
  wait_for(full_barrier<R>(ring, memory), ring.phase, line);
}
template <class R>
TILE void free_held_stage(const Ring& ring, SharedAddress memory, int line) {
  if (ring.held >= 0 && thread() == 0) arrive(memory + R::empty + 8 * ring.held, line);
}
template <class R>
TILE void release_stage(const Ring& ring, SharedAddress memory, int line) {
  if (thread() == 0) arrive(memory + R::empty + 8 * ring.stage, line);
}
// Each warp arrives once all its threads have read the stage to registers.
template <class R>
TILE void release_by_warps(const Ring& ring, SharedAddress memory, int line) {
  synchronize_warp(line);
  if (lane() == 0) arrive(memory + R::empty + 8 * ring.stage, line);
}
// Frees the stage before this iteration's, and holds this one.
template <class R>
TILE void free_stage(Ring& ring, SharedAddress memory, int line) {
  free_held_stage<R>(ring, memory, line);
  ring.held = (i32)ring.stage;
}
template <class R>
TILE void drain_ring(Ring& ring, SharedAddress memory, int line) {
  free_held_stage<R>(ring, memory, line);
  ring.held = -1;
}

}  // namespace tile
