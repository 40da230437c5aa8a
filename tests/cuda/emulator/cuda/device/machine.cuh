// The hardware, on the host; replaces the file of this name in csrc, because its include path comes first. A
// kernel's source then compiles as C++ and runs as threads of the emulator.
#pragma once
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cuda/device/words.cuh"
#include "cuda/emulator/asynchronous.h"
#include "cuda/emulator/floats.h"
#include "cuda/emulator/machine.h"

#define TILE inline
#define TILE_KERNEL(...) static void
#define TILE_UNROLL
#define TILE_LOOP

// CUDA features that C++ lacks.
inline float rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
inline double rsqrt(double x) { return 1 / sqrt(x); }

namespace tile {

// A kernel whose warpgroups run different code calls this_group() first. The text's TILE_GROUPS is of no
// effect here, because all programs share one compiled device library.
TILE int thread() { return emulator::here.grouped ? emulator::here.thread & 127 : emulator::here.thread; }
TILE bool first_thread() { return emulator::here.thread == 0; }
TILE int group_of_block() { return emulator::here.thread / 128 - 1; }
TILE int this_group() {
  emulator::begin_groups();
  return emulator::here.thread / 128;
}
TILE int lane() { return thread() & 31; }
TILE int warp() { return thread() >> 5; }
template <int axis>
TILE int bid() {
  return emulator::here.block[axis];
}
template <int axis>
TILE int num_blocks() {
  return emulator::here.grid[axis];
}

// A site of waiting is identified by its caller, in the device library or the kernel.
TILE void synchronize(int line, const char* file = __builtin_FILE(), int at = __builtin_LINE()) {
  emulator::meet(emulator::Group::synchronized(), {"the barrier", line, file, at}, nullptr,
                 [](void**, int count) { emulator::pass_barrier(count); });
}
TILE void synchronize_all(int line, const char* file = __builtin_FILE(), int at = __builtin_LINE()) {
  emulator::meet(emulator::Group::block(), {"the barrier of the block", line, file, at}, nullptr,
                 [](void**, int count) { emulator::pass_barrier(count); });
}

TILE bool synchronize_or(bool mine, int line, const char* file = __builtin_FILE(),
                         int at = __builtin_LINE()) {
  emulator::meet(emulator::Group::synchronized(), {"the barrier", line, file, at}, &mine,
                 [](void** all, int count) {
                   emulator::pass_barrier(count);
                   bool any = false;
                   for (int i = 0; i < count; ++i) any = any || *(bool*)all[i];
                   for (int i = 0; i < count; ++i) *(bool*)all[i] = any;
                 });
  return mine;
}

TILE int block_of_cluster() { return emulator::here.of_cluster; }
TILE void arrive_in_cluster(int) { emulator::arrive_in_cluster(); }
TILE void wait_in_cluster(int line, const char* file = __builtin_FILE(), int at = __builtin_LINE()) {
  emulator::wait_in_cluster({"the barrier of the cluster", line, file, at});
}

template <int bytes, bool constant>
TILE Words<bytes> load_global(const void* from, bool wanted, Words<bytes> otherwise, int line) {
  if (!wanted) return otherwise;
  emulator::check_global(from, bytes, emulator::Access::load, constant, line);
  Words<bytes> to;
  memcpy(&to, from, bytes);
  return to;
}
// Reports sums of products that are not awaited.
template <int bytes>
TILE void check_sums(Words<bytes> words, int line) {
  if constexpr (bytes >= 4)
    for (u32 word : words.x)
      if ((word & 0x7f800000) == 0x7f800000 || word >> 22 == 0x5a8 >> 2) emulator::check_sum(word, line);
}
template <int bytes>
TILE void store_global(void* to, Words<bytes> from, bool wanted, int line) {
  if (!wanted) return;
  check_sums(from, line);
  emulator::check_global(to, bytes, emulator::Access::store, false, line);
  memcpy(to, &from, bytes);
}

TILE char* shared_memory() { return emulator::shared_memory(); }
template <class T>
TILE T load_shared(const void* from, int line) {
  emulator::check_shared(from, sizeof(T), emulator::Access::load, line);
  T to;
  memcpy(&to, from, sizeof(T));
  return to;
}
template <class T>
TILE void store_shared(void* to, T from, int line) {
  emulator::check_shared(to, sizeof(T), emulator::Access::store, line);
  memcpy(to, &from, sizeof(T));
}

template <class T>
TILE void store_shared_of(int block, void* to, T from, int line) {
  memcpy(emulator::check_shared_of(block, to, sizeof(T), line), &from, sizeof(T));
}

TILE void copy_async(void* to, const void* from, int bytes, int line) {
  emulator::copy_async(to, from, bytes, line);
}
TILE void copy_async_if(void* to, const void* from, bool wanted, int line) {
  emulator::copy_async(to, from, wanted ? 16 : 0, line);
}
TILE void copy_async_commit() { emulator::commit_copies(); }
template <int groups>
TILE void copy_async_wait() {
  emulator::wait_for_copies(groups);
}

using SharedAddress = u64;
TILE SharedAddress shared_address(const void* at) { return (u64)at; }

struct Shuffled {
  u32 given, taken;
  int from;
};
inline u32 shuffled_with(u32 x, int from, const emulator::Site& site) {
  Shuffled mine{x, x, from};
  emulator::meet(emulator::Group::warp(), site, &mine, [](void** all, int count) {
    for (int i = 0; i < count; ++i) {
      Shuffled* to = (Shuffled*)all[i];
      if (to->from < count) to->taken = ((Shuffled*)all[to->from])->given;
    }
  });
  return mine.taken;
}
TILE u32 shuffle_xor(u32 x, int mask, int line, const char* file = __builtin_FILE(),
                     int at = __builtin_LINE()) {
  return shuffled_with(x, lane() ^ mask, {"the shuffle_xor", line, file, at});
}
TILE u32 shuffle(u32 x, int from, int line, const char* file = __builtin_FILE(), int at = __builtin_LINE()) {
  return shuffled_with(x, from & 31, {"the shuffle", line, file, at});
}

struct FailureLocation {
  u32 *any, *record;
};
TILE void write_failure(const FailureLocation& to, u32 assertion, u32 element) {
  if (to.record[0]) return;
  const int(&block)[3] = emulator::here.block;
  const u32 words[] = {assertion + 1, element, (u32)block[0], (u32)block[1] | (u32)block[2] << 16};
  memcpy(to.record, words, sizeof words);
  *to.any = 1;
}

TILE u16 bits_of_bf16(f32 x) {
  if (x != x) emulator::check_sum(emulator::bits<u32>(x), 0);
  return emulator::bits_of_bf16(x);
}
TILE u16 bits_of_f16(f32 x) {
  if (x != x) emulator::check_sum(emulator::bits<u32>(x), 0);
  return emulator::bits_of_f16(x);
}
TILE f32 f16_from_bits(u16 bits) { return emulator::f16_from_bits(bits); }
TILE i32 clamped_index(i64 index, i64 most) { return (i32)(index < 0 ? 0 : index > most ? most : index); }
TILE void keep_here(u32&) {}
TILE f32 exp2_approximate(f32 x) { return exp2f(x); }
TILE f32 divide_approximate(f32 x, f32 y) { return x / y; }
TILE f32 reciprocal_approximate(f32 x) { return 1 / x; }
TILE f32 sqrt_approximate(f32 x) { return sqrtf(x); }
TILE u32 bits_of(f32 x) { return emulator::bits<u32>(x); }
TILE f32 float_from_bits(u32 x) { return emulator::bits<f32>(x); }

}  // namespace tile
