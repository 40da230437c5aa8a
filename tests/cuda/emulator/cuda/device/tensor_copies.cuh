// Copies of boxes, on the host; replaces the file of this name in csrc.
#pragma once
#include "cuda/device/barriers.cuh"

#define TILE_CONSTANT

namespace tile {

struct alignas(64) TensorMap {
  u64 words[16];
};
TILE void prefetch_map(const TensorMap&) {}

template <int rank>
TILE void copy_tensor(SharedAddress to, const TensorMap& map, SharedAddress barrier, const i32 (&at)[rank],
                      int line) {
  emulator::copy_tensor((void*)to, &map, (const void*)barrier, at, rank, 1u << block_of_cluster(), line);
}
template <int rank>
TILE void copy_tensor_to_cluster(SharedAddress to, const TensorMap& map, SharedAddress barrier,
                                 const i32 (&at)[rank], u16 mask, int line) {
  emulator::copy_tensor((void*)to, &map, (const void*)barrier, at, rank, mask, line);
}

template <int rank>
TILE void store_tensor(const TensorMap& map, SharedAddress from, const i32 (&at)[rank], int line) {
  emulator::store_tensor(&map, (const void*)from, at, rank, line);
}
TILE void commit_tensor_stores(int) { emulator::commit_tensor_stores(); }
template <int groups>
TILE void wait_for_tensor_reads(int) {
  emulator::wait_for_tensor_reads(groups);
}
template <int groups>
TILE void wait_for_tensor_stores(int) {
  emulator::wait_for_tensor_stores(groups);
}

}  // namespace tile
