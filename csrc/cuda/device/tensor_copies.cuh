// Copies of boxes of an array between global and shared memory (TMA), from sm_90 on. The emulator replaces
// this file.
#pragma once
#include "cuda/device/barriers.cuh"

// A parameter that copies read from where the launch has put it.
#define TILE_CONSTANT __grid_constant__

namespace tile {

// An array and a box: which elements a copy moves, and their order in shared memory. The driver encodes it.
struct alignas(64) TensorMap {
  u64 words[16];
};
TILE void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Starts a copy to shared memory. `at` is the first element of the box, innermost coordinate first; elements
// outside of the array are 0. The barrier's phase waits for the bytes of the whole box.
template <int rank>
TILE void copy_tensor(SharedAddress to, const TensorMap& map, SharedAddress barrier, const i32 (&at)[rank],
                      int) {
  static_assert(rank >= 1 && rank <= 5, "a tensor map has 1 to 5 axes");
  if constexpr (rank == 1)
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], "
        "[%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(at[0])
        : "memory");
  else if constexpr (rank == 2)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
        "[%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(at[0]), "r"(at[1])
        : "memory");
  else if constexpr (rank == 3)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
        "%5}], [%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
  else if constexpr (rank == 4)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
        "%6}], [%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
        "%6, %7}], [%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
        : "memory");
}
// Starts a copy to the same address in each block of the cluster whose bit is set in the mask. It counts at
// the barrier of each block that receives it.
template <int rank>
TILE void copy_tensor_to_cluster(SharedAddress to, const TensorMap& map, SharedAddress barrier,
                                 const i32 (&at)[rank], u16 mask, int) {
  static_assert(rank >= 1 && rank <= 5, "a tensor map has 1 to 5 axes");
  if constexpr (rank == 1)
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4}], [%2], %3;" ::"r"(to),
        "l"(&map), "r"(barrier), "h"(mask), "r"(at[0])
        : "memory");
  else if constexpr (rank == 2)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4, %5}], [%2], %3;" ::"r"(to),
        "l"(&map), "r"(barrier), "h"(mask), "r"(at[0]), "r"(at[1])
        : "memory");
  else if constexpr (rank == 3)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(to),
        "l"(&map), "r"(barrier), "h"(mask), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
  else if constexpr (rank == 4)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(to),
        "l"(&map), "r"(barrier), "h"(mask), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(to),
        "l"(&map), "r"(barrier), "h"(mask), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
        : "memory");
}

// Starts a copy from shared to global memory; elements outside of the array are dropped. Threads that wrote
// the shared memory have called fence_async() before.
template <int rank>
TILE void store_tensor(const TensorMap& map, SharedAddress from, const i32 (&at)[rank], int) {
  static_assert(rank >= 1 && rank <= 5, "a tensor map has 1 to 5 axes");
  if constexpr (rank == 1)
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%2}], [%1];" ::"l"(&map),
                 "r"(from), "r"(at[0])
                 : "memory");
  else if constexpr (rank == 2)
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
                 "r"(from), "r"(at[0]), "r"(at[1])
                 : "memory");
  else if constexpr (rank == 3)
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
        "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
  else if constexpr (rank == 4)
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
        "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
        "r"(from), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
        : "memory");
}
// The thread's stores since the last commit form a group. The waits return when at most `groups` groups have
// not read shared memory, or are not written.
TILE void commit_tensor_stores(int) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int groups>
TILE void wait_for_tensor_reads(int) {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(groups) : "memory");
}
template <int groups>
TILE void wait_for_tensor_stores(int) {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(groups) : "memory");
}

}  // namespace tile
