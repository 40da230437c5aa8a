// The hardware: threads, memory, shuffles, barriers. Everything else in this library is plain C++ on top of
// it, so an emulator only replaces the files that say so.
#pragma once
#include "cuda/device/words.cuh"

#define TILE __device__ __forceinline__
// Threads of a block, and how many blocks should fit into a multiprocessor's registers.
#define TILE_KERNEL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)
#define TILE_UNROLL _Pragma("unroll")
#define TILE_LOOP _Pragma("unroll 1")  // loops of the kernel: unrolling them costs compile time and registers

namespace tile {

TILE int lane() { return threadIdx.x & 31; }
#ifndef TILE_GROUPS
TILE int thread() { return threadIdx.x; }
TILE int warp() { return threadIdx.x >> 5; }
#else
// The text defines TILE_GROUPS ahead of its includes if the warpgroups of a block run different code. A group
// is then what a block is elsewhere: the threads that thread() and warp() number and that synchronize().
TILE int thread() { return threadIdx.x & 127; }
TILE int warp() { return threadIdx.x >> 5 & 3; }
#endif
TILE bool first_thread() { return threadIdx.x == 0; }  // of the block
// The warpgroup's number in the block. The shuffle tells the compiler that it is the same in the whole warp,
// so that addresses computed from it stay in uniform registers; this is called once, at the top of a kernel.
TILE int this_group() { return __shfl_sync(0xffffffffu, (int)threadIdx.x >> 7, 0); }
// The number among the groups that compute: group 0 only copies. Layouts use this cheaper form, which the
// compiler takes for different in each thread.
TILE int group_of_block() { return (int)(threadIdx.x >> 7) - 1; }
template <int axis>
TILE int bid() {
  return axis == 0 ? blockIdx.x : axis == 1 ? blockIdx.y : blockIdx.z;
}
template <int axis>
TILE int num_blocks() {
  return axis == 0 ? gridDim.x : axis == 1 ? gridDim.y : gridDim.z;
}

// Block barrier: all threads wait here and then see each other's writes. As everywhere, `line` is the user's
// source line for the emulator's reports.
TILE void synchronize_all(int) { __syncthreads(); }
#ifndef TILE_GROUPS
TILE void synchronize(int) { __syncthreads(); }
// The same; returns whether any thread passed true.
TILE bool synchronize_or(bool mine, int) { return __syncthreads_or(mine) != 0; }
#else
// The same for the threads of a group; barrier 0 is that of the block.
TILE void synchronize(int) { asm volatile("bar.sync %0, 128;" ::"r"(1 + (threadIdx.x >> 7)) : "memory"); }
TILE bool synchronize_or(bool mine, int) {
  u32 any;
  asm volatile(
      "{ .reg .pred p, q; setp.ne.b32 p, %2, 0; bar.red.or.pred q, %1, 128, p; selp.u32 %0, 1, 0, q; }"
      : "=r"(any)
      : "r"(1 + (threadIdx.x >> 7)), "r"((u32)mine)
      : "memory");
  return any != 0;
}
#endif

// Blocks of a cluster, from sm_90 on: this block's number, and a barrier of all threads of the cluster in two
// halves. Writes before the arrival are visible after the wait. The first barrier also guarantees that all
// blocks have started.
TILE int block_of_cluster() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}
TILE void arrive_in_cluster(int) { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
TILE void wait_in_cluster(int) { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Global memory, accessed under a predicate, which costs no branch, so that many accesses are in flight. A
// constant array is not written while the kernel runs: its loads may be moved and merged. There are no cache
// hints.
template <int bytes, bool constant>
TILE Words<bytes> load_global(const void* from, bool wanted, Words<bytes> otherwise, int line);
template <>
TILE Words<1> load_global<1, true>(const void* from, bool wanted, Words<1> otherwise, int) {
  u32 x = otherwise.x[0];
  asm("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.u8 %0, [%1]; }"
      : "+r"(x)
      : "l"(from), "r"((u32)wanted));
  return {{(u8)x}};
}
template <>
TILE Words<2> load_global<2, true>(const void* from, bool wanted, Words<2> otherwise, int) {
  asm("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.u16 %0, [%1]; }"
      : "+h"(otherwise.x[0])
      : "l"(from), "r"((u32)wanted));
  return otherwise;
}
template <>
TILE Words<4> load_global<4, true>(const void* from, bool wanted, Words<4> otherwise, int) {
  asm("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.u32 %0, [%1]; }"
      : "+r"(otherwise.x[0])
      : "l"(from), "r"((u32)wanted));
  return otherwise;
}
template <>
TILE Words<8> load_global<8, true>(const void* from, bool wanted, Words<8> otherwise, int) {
  asm("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.v2.u32 {%0, %1}, [%2]; }"
      : "+r"(otherwise.x[0]), "+r"(otherwise.x[1])
      : "l"(from), "r"((u32)wanted));
  return otherwise;
}
template <>
TILE Words<16> load_global<16, true>(const void* from, bool wanted, Words<16> otherwise, int) {
  asm("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
      : "+r"(otherwise.x[0]), "+r"(otherwise.x[1]), "+r"(otherwise.x[2]), "+r"(otherwise.x[3])
      : "l"(from), "r"((u32)wanted));
  return otherwise;
}
template <>
TILE Words<1> load_global<1, false>(const void* from, bool wanted, Words<1> otherwise, int) {
  u32 x = otherwise.x[0];
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.u8 %0, [%1]; }"
               : "+r"(x)
               : "l"(from), "r"((u32)wanted)
               : "memory");
  return {{(u8)x}};
}
template <>
TILE Words<2> load_global<2, false>(const void* from, bool wanted, Words<2> otherwise, int) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.u16 %0, [%1]; }"
               : "+h"(otherwise.x[0])
               : "l"(from), "r"((u32)wanted)
               : "memory");
  return otherwise;
}
template <>
TILE Words<4> load_global<4, false>(const void* from, bool wanted, Words<4> otherwise, int) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.u32 %0, [%1]; }"
               : "+r"(otherwise.x[0])
               : "l"(from), "r"((u32)wanted)
               : "memory");
  return otherwise;
}
template <>
TILE Words<8> load_global<8, false>(const void* from, bool wanted, Words<8> otherwise, int) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.v2.u32 {%0, %1}, [%2]; }"
               : "+r"(otherwise.x[0]), "+r"(otherwise.x[1])
               : "l"(from), "r"((u32)wanted)
               : "memory");
  return otherwise;
}
template <>
TILE Words<16> load_global<16, false>(const void* from, bool wanted, Words<16> otherwise, int) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
               : "+r"(otherwise.x[0]), "+r"(otherwise.x[1]), "+r"(otherwise.x[2]), "+r"(otherwise.x[3])
               : "l"(from), "r"((u32)wanted)
               : "memory");
  return otherwise;
}

TILE void store_global(void* to, Words<1> from, bool wanted, int) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p st.global.u8 [%0], %1; }" ::"l"(to),
               "r"((u32)from.x[0]), "r"((u32)wanted)
               : "memory");
}
TILE void store_global(void* to, Words<2> from, bool wanted, int) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p st.global.u16 [%0], %1; }" ::"l"(to), "h"(from.x[0]),
               "r"((u32)wanted)
               : "memory");
}
TILE void store_global(void* to, Words<4> from, bool wanted, int) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p st.global.u32 [%0], %1; }" ::"l"(to), "r"(from.x[0]),
               "r"((u32)wanted)
               : "memory");
}
TILE void store_global(void* to, Words<8> from, bool wanted, int) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p st.global.v2.u32 [%0], {%1, %2}; }" ::"l"(to),
               "r"(from.x[0]), "r"(from.x[1]), "r"((u32)wanted)
               : "memory");
}
TILE void store_global(void* to, Words<16> from, bool wanted, int) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %5, 0; @p st.global.v4.u32 [%0], {%1, %2, %3, %4}; }" ::"l"(to),
      "r"(from.x[0]), "r"(from.x[1]), "r"(from.x[2]), "r"(from.x[3]), "r"((u32)wanted)
      : "memory");
}

// Shared memory of the block: one buffer, of which each step uses as much as it needs between two barriers.
TILE char* shared_memory() {
  extern __shared__ __align__(1024) char memory[];
  return memory;
}
template <class T>
TILE T load_shared(const void* from, int) {
  return *(const T*)from;
}
template <class T>
TILE void store_shared(void* to, T from, int) {
  *(T*)to = from;
}

using SharedAddress = u32;
TILE SharedAddress shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }

// Stores to the same address in the shared memory of another block of the cluster. That block must not exit
// before it has synchronized with this one again.
TILE u32 shared_address_of(int block, const void* at) {
  u32 address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(at)), "r"(block));
  return address;
}
template <class T>
TILE void store_shared_of(int block, void* to, T from, int) {
  const u32 address = shared_address_of(block, to);
  if constexpr (sizeof(T) == 16) {
    u64 bits[2];
    memcpy(bits, &from, 16);
    asm volatile("st.shared::cluster.v2.u64 [%0], {%1, %2};" ::"r"(address), "l"(bits[0]), "l"(bits[1])
                 : "memory");
  } else if constexpr (sizeof(T) == 8) {
    u64 bits;
    memcpy(&bits, &from, 8);
    asm volatile("st.shared::cluster.u64 [%0], %1;" ::"r"(address), "l"(bits) : "memory");
  } else if constexpr (sizeof(T) == 4) {
    u32 bits;
    memcpy(&bits, &from, 4);
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(bits) : "memory");
  } else if constexpr (sizeof(T) == 2) {
    u16 bits;
    memcpy(&bits, &from, 2);
    asm volatile("st.shared::cluster.u16 [%0], %1;" ::"r"(address), "h"(bits) : "memory");
  } else {
    u8 bits;
    memcpy(&bits, &from, 1);
    asm volatile("st.shared::cluster.u8 [%0], %1;" ::"r"(address), "r"((u32)bits) : "memory");
  }
}

// Starts a copy of 16 bytes to shared memory: `bytes` from global memory, the rest 0.
TILE void copy_async(void* to, const void* from, int bytes, int) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
// Copies all 16 bytes, or writes zeros if not wanted.
TILE void copy_async_if(void* to, const void* from, bool wanted, int) {
  asm volatile("{ .reg .pred p; setp.eq.b32 p, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, p; }" ::"r"(
                   shared_address(to)),
               "l"(from), "r"((u32)wanted)
               : "memory");
}
// Copies since the last commit form a group. `wait` blocks until at most `groups` groups are in flight.
TILE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int groups>
TILE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

// Returns the value of the lane whose number differs by the bits of `mask`.
TILE u32 shuffle_xor(u32 x, int mask, int) { return __shfl_xor_sync(0xffffffffu, x, mask); }
// Reads from a lane by the lowest five bits of `from`.
TILE u32 shuffle(u32 x, int from, int) { return __shfl_sync(0xffffffffu, x, from); }

// Host memory where a kernel with assertions reports a failure. Of several failures one is kept.
struct FailureLocation {
  u32 *any, *record;  // a word that all kernels share, and four of this kernel
};
TILE void write_failure(const FailureLocation& to, u32 assertion, u32 element) {
  u32 known;
  asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(known) : "l"(to.record) : "memory");
  if (known) return;
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to.record), "r"(assertion + 1),
               "r"(element), "r"(blockIdx.x), "r"(blockIdx.y | blockIdx.z << 16)
               : "memory");
  __threadfence_system();  // the record is visible before the word
  asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(to.any), "r"(1) : "memory");
}

// float32 to 16 bits, to nearest even.
TILE u16 bits_of_bf16(f32 x) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
TILE u16 bits_of_f16(f32 x) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
TILE f32 f16_from_bits(u16 bits) {
  f32 x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
// Clamps the index to [0, most] in 64 bits. For 32 bits, ptxas 13.0 emits one instruction for sm_90 and then
// misuses its predicate as the comparison with `most`, which is wrong for larger indices.
TILE i32 clamped_index(i64 index, i64 most) {
  asm("max.s64 %0, %0, 0;" : "+l"(index));
  asm("min.s64 %0, %0, %1;" : "+l"(index) : "l"(most));
  return (i32)index;
}
// Makes the value opaque to the compiler, so that dependent computations are not moved.
TILE void keep_here(u32& x) { asm volatile("" : "+r"(x)); }
// Accurate to about 22 bits; subnormal results are 0.
TILE f32 exp2_approximate(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TILE f32 divide_approximate(f32 x, f32 y) {
  f32 z;
  asm("div.full.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
TILE f32 reciprocal_approximate(f32 x) {
  f32 y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TILE f32 sqrt_approximate(f32 x) {
  f32 y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TILE u32 bits_of(f32 x) { return __float_as_uint(x); }
TILE f32 float_from_bits(u32 x) { return __uint_as_float(x); }

}  // namespace tile
