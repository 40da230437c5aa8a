// Rings whose stages have a tile that both CTAs of a pair read. Each CTA copies half of it to both, so a stage
// is free once the groups of both have read it: they arrive at the barrier of either CTA. The other tiles of a
// stage are each CTA's own. `half` is the CTA's number in the pair.
#pragma once
#include "cuda/device/rings.cuh"

namespace tile {

constexpr u16 both_of_pair = 3;  // a mask of CTAs

// All threads of both CTAs wait here: the first time before one copies to the other or arrives there, the last
// time when neither does so any more.
TILE void meet_pair(int line) {
  synchronize_warp(line);
  arrive_in_cluster(line);
  wait_in_cluster(line);
}

template <class R>
TILE void arrive_at_both(u32 stage, SharedAddress memory, int half, int line) {
  if (thread() != 0) return;
  arrive(memory + R::empty + 8 * stage, line);
  arrive_remote(memory + R::empty + 8 * stage, half ^ 1, line);
}
template <class R>
TILE void release_stage_to_pair(const Ring& ring, SharedAddress memory, int half, int line) {
  arrive_at_both<R>(ring.stage, memory, half, line);
}
template <class R>
TILE void free_stage_to_pair(Ring& ring, SharedAddress memory, int half, int line) {
  if (ring.held >= 0) arrive_at_both<R>((u32)ring.held, memory, half, line);
  ring.held = (i32)ring.stage;
}
template <class R>
TILE void drain_ring_to_pair(Ring& ring, SharedAddress memory, int half, int line) {
  if (ring.held >= 0) arrive_at_both<R>((u32)ring.held, memory, half, line);
  ring.held = -1;
}

}  // namespace tile
