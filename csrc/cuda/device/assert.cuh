// Assertions: finds the first false element over the threads of a block and the blocks of a cluster.
#pragma once
#include "cuda/device/tile.cuh"

namespace tile {

constexpr i32 no_element = 0x7fffffff;

// Returns the minimum of the block's numbers, which are below 2^31, bit by bit from the highest. This is
// slow, but runs only after a failure and needs no shared memory.
TILE i32 least_of_block(i32 mine, int line) {
  i32 least = 0;
  TILE_LOOP for (int bit = 30; bit >= 0; --bit) {
    const bool may_be = ((mine ^ least) >> bit & ~1) == 0;
    if (!synchronize_or(may_be && !(mine >> bit & 1), line)) least |= 1 << bit;
  }
  return least;
}

// Returns the row-major index of the first false element, in all threads of the block; no_element if all are
// true.
template <class L>
TILE i32 first_false(const Tile<bool, L>& condition, int line) {
  constexpr int words = (L::registers + 31) / 32;
  u32 failed[words] = {}, any = 0;  // a bit per register: the rare case needs few registers
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) failed[r / 32] |= (u32)(!condition.x[r] && valid<L>(r)) << r % 32;
  TILE_UNROLL
  for (int i = 0; i < words; ++i) any |= failed[i];
  if (!synchronize_or(any != 0, line)) return no_element;
  i32 first = no_element;
  TILE_UNROLL
  for (int i = 0; i < words; ++i)
    TILE_LOOP for (int bit = 0; bit < 32; ++bit) {
      if (!(failed[i] >> bit & 1)) continue;
      i32 at = 0;
      TILE_UNROLL
      for (int axis = 0; axis < L::rank; ++axis)
        at = at * L::extent(axis) + L::thread(axis) + L::element(axis, i * 32 + bit);
      first = at < first ? at : first;
    }
  return least_of_block(first, line);
}
// The same if the blocks of a cluster hold parts of the tile: all their threads get the result. `across` has
// one word per block.
template <class L, int blocks>
TILE i32 first_false_in_cluster(const Tile<bool, L>& condition, int line, char* across) {
  i32 first = first_false(condition, line);
  i32* const memory = (i32*)across;
  if (thread() < blocks) store_shared_of(thread(), memory + block_of_cluster(), first, line);
  arrive_in_cluster(line);
  wait_in_cluster(line);
  TILE_UNROLL
  for (int block = 0; block < blocks; ++block) {
    const i32 other = load_shared<i32>(memory + block, line);
    first = other < first ? other : first;
  }
  return first;
}

// Reports a failure before the block, and the others of its cluster, exit. It first waits for copies into
// shared memory.
template <int blocks>
TILE void report_failure(const FailureLocation& to, int assertion, i32 element) {
  copy_async_wait<0>();
  if (thread() == 0 && (blocks == 1 || block_of_cluster() == 0))
    write_failure(to, (u32)assertion, (u32)element);
}

}  // namespace tile
