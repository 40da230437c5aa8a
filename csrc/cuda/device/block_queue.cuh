// The blocks of a persistent kernel that draws them. Each CTA begins with the block of its number; its
// producer draws the others from a counter of the launch, and tells them to the other roles through two slots
// of shared memory. From sm_90 on.
//
// Q describes the slots: readers, the number that arrive once they have read one (warps of groups and a
// second producer), and the offset of the barriers, behind which the numbers of the blocks lie.
#pragma once
#include "cuda/device/barriers.cuh"
#include "cuda/device/block_counters.cuh"
#include "cuda/device/warps.cuh"

namespace tile {

// The slot of the next block. The phase is that of a ring of two stages.
struct BlockQueue {
  u32 slot = 0, phase = 0;
  TILE void next() {
    slot ^= 1;
    if (slot == 0) phase ^= 1;
  }
};

template <class Q>
TILE SharedAddress told_barrier(u32 slot, SharedAddress memory) {
  return memory + Q::offset + 8 * slot;
}
template <class Q>
TILE SharedAddress read_barrier(u32 slot, SharedAddress memory) {
  return memory + Q::offset + 16 + 8 * slot;
}
template <class Q>
TILE i32* told_block(u32 slot) {
  return (i32*)(shared_memory() + Q::offset + 32) + slot;
}
template <class Q>
TILE void init_queue(SharedAddress memory, int line) {
  TILE_UNROLL
  for (u32 slot = 0; slot < 2; ++slot) {
    init_barrier(told_barrier<Q>(slot, memory), 1, line);
    init_barrier(read_barrier<Q>(slot, memory), Q::readers, line);
  }
}

template <class Q>
TILE void put_block(BlockQueue& queue, SharedAddress memory, i32 block, int line) {
  wait_for(read_barrier<Q>(queue.slot, memory), queue.phase ^ 1, line);
  store_shared(told_block<Q>(queue.slot), block, line);
  arrive(told_barrier<Q>(queue.slot, memory), line);
  queue.next();
}
// The compiler knows that threads of a warp get the same block: what is computed from it then lies in uniform
// registers, as the descriptors of products must.
template <class Q>
TILE i32 take_block(BlockQueue& queue, SharedAddress memory, int line) {
  wait_for(told_barrier<Q>(queue.slot, memory), queue.phase, line);
  const i32 block = same_in_warp(load_shared<i32>(told_block<Q>(queue.slot), line));
  synchronize_warp(line);
  if (lane() == 0) arrive(read_barrier<Q>(queue.slot, memory), line);
  queue.next();
  return block;
}
template <class Q>
TILE i32 take_block_by_thread(BlockQueue& queue, SharedAddress memory, int line) {
  wait_for(told_barrier<Q>(queue.slot, memory), queue.phase, line);
  const i32 block = load_shared<i32>(told_block<Q>(queue.slot), line);
  arrive(read_barrier<Q>(queue.slot, memory), line);
  queue.next();
  return block;
}

}  // namespace tile
