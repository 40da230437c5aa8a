// Atomic instructions on the host. Threads are fibers, so accesses are never interleaved; only the memory
// order that kernels rely on is tracked.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

enum class Order { relaxed, acquire, release, acq_rel };
enum class Scope { block, device, system };

template <Order order, Scope scope>
TILE void release_at(const void* at) {
  if ((int)order & 2) emulator::release_at(at);
}
template <Order order, Scope scope>
TILE void acquire_at(const void* at) {
  if ((int)order & 1) emulator::acquire_at(at);
}

#define TILE_ATOMIC(NAME, VALUE)                                              \
  template <Scope scope, class T>                                             \
  TILE T NAME(T* at, T x, int line) {                                         \
    emulator::check_global(at, sizeof(T), emulator::Access::change, false, line); \
    const T before = *at;                                                     \
    *at = VALUE;                                                              \
    return before;                                                            \
  }
TILE_ATOMIC(fetch_add, before + x)  // of unsigned integers and floats
TILE_ATOMIC(fetch_max, before > x ? before : x)
TILE_ATOMIC(fetch_min, before < x ? before : x)
TILE_ATOMIC(fetch_and, before & x)
TILE_ATOMIC(fetch_or, before | x)
TILE_ATOMIC(fetch_xor, before ^ x)
TILE_ATOMIC(exchange, x)
#undef TILE_ATOMIC

template <bool around>
TILE void check_word(const void* at, int bytes, emulator::Access access, int line) {
  if (around)
    emulator::check_global_word(at, access, line);
  else
    emulator::check_global(at, bytes, access, false, line);
}
template <Scope scope, bool around = false, class T>
TILE T load_word(const T* at, int line) {
  check_word<around>(at, sizeof(T), emulator::Access::atomic_load, line);
  return *at;
}
template <Scope scope, class T>
TILE void store_word(T* at, T x, int line) {
  check_word<false>(at, sizeof(T), emulator::Access::change, line);
  *at = x;
}
template <Scope scope, bool around = false, class T>
TILE T compare_exchange(T* at, T expected, T wanted, int line) {
  check_word<around>(at, sizeof(T), emulator::Access::change, line);
  const T before = *at;
  if (before == expected) *at = wanted;
  return before;
}

template <class T>
TILE void atomic_add_global(T* to, T x, int line) {
  emulator::check_global(to, sizeof(T), emulator::Access::change, false, line);
  // Integers wrap.
  if constexpr (sizeof(T) == 4 && T(0.5) == T(0))
    *to = (T)((u32)*to + (u32)x);
  else if constexpr (T(0.5) == T(0))
    *to = (T)((u64)*to + (u64)x);
  else
    *to += x;
}
TILE void atomic_add_global_pair(f32* to, f32 x, f32 y, int line) {
  emulator::check_global(to, 8, emulator::Access::change, false, line);
  to[0] += x;
  to[1] += y;
}
TILE void atomic_add_global_four(f32* to, const f32* x, int line) {
  emulator::check_global(to, 16, emulator::Access::change, false, line);
  for (int i = 0; i < 4; ++i) to[i] += x[i];
}
struct bf16;
struct f16;
template <class T>
constexpr bool adds_global = false;
template <>
inline constexpr bool adds_global<bf16> = true;
template <>
inline constexpr bool adds_global<f16> = true;
template <class T>
f32 value_of_16_bits(u16 bits);
template <>
inline f32 value_of_16_bits<bf16>(u16 bits) {
  return emulator::bits<f32>((u32)bits << 16);
}
template <>
inline f32 value_of_16_bits<f16>(u16 bits) {
  return emulator::f16_from_bits(bits);
}
template <class T>
u16 bits_of_16_bits(f32 x);
template <>
inline u16 bits_of_16_bits<bf16>(f32 x) {
  return emulator::bits_of_bf16(x);
}
template <>
inline u16 bits_of_16_bits<f16>(f32 x) {
  return emulator::bits_of_f16(x);
}
template <class T>
TILE void atomic_add_global_bits(u16* to, u16 x, int line) {
  emulator::check_global(to, 2, emulator::Access::change, false, line);
  *to = bits_of_16_bits<T>(value_of_16_bits<T>(*to) + value_of_16_bits<T>(x));
}
template <class T>
TILE void atomic_add_global_bits(u32* to, u32 x, int line) {
  emulator::check_global(to, 4, emulator::Access::change, false, line);
  u16 sums[2], more[2];
  memcpy(sums, to, 4);
  memcpy(more, &x, 4);
  for (int i = 0; i < 2; ++i)
    sums[i] = bits_of_16_bits<T>(value_of_16_bits<T>(sums[i]) + value_of_16_bits<T>(more[i]));
  memcpy(to, sums, 4);
}

}  // namespace tile
