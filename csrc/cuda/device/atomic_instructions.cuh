// Atomic instructions on global memory, and their memory order. The emulator replaces this file.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

// The order in which others see accesses around an atomic one, as bits, and the scope of these others.
enum class Order { relaxed, acquire, release, acq_rel };
enum class Scope { block, device, system };
TILE constexpr bool acquires(Order order) { return (int)order & 1; }
TILE constexpr bool releases(Order order) { return (int)order & 2; }

#define TILE_IN_SCOPE(ACCESS, ...)           \
  if constexpr (scope == Scope::block)       \
    ACCESS("cta", ##__VA_ARGS__);            \
  else if constexpr (scope == Scope::device) \
    ACCESS("gpu", ##__VA_ARGS__);            \
  else                                       \
    ACCESS("sys", ##__VA_ARGS__);

#define TILE_FENCE(SCOPE) asm volatile("fence.acq_rel." SCOPE ";" ::: "memory")
template <Scope scope>
TILE void fence() {
  TILE_IN_SCOPE(TILE_FENCE)
}
// Fences before and after an access of `at`, by the thread that accesses it.
template <Order order, Scope scope>
TILE void release_at(const void*) {
  if constexpr (releases(order)) fence<scope>();
}
template <Order order, Scope scope>
TILE void acquire_at(const void*) {
  if constexpr (acquires(order)) fence<scope>();
}

// Each instruction returns the old value.
#define TILE_CHANGE(SCOPE, PTX, REGISTER)                            \
  asm volatile("atom.relaxed." SCOPE ".global." PTX " %0, [%1], %2;" \
               : "=" REGISTER(before)                                \
               : "l"(at), REGISTER(x)                                \
               : "memory")
#define TILE_ATOMIC(NAME, T, PTX, REGISTER)   \
  template <Scope scope>                      \
  TILE T NAME(T* at, T x, int) {              \
    T before;                                 \
    TILE_IN_SCOPE(TILE_CHANGE, PTX, REGISTER) \
    return before;                            \
  }
TILE_ATOMIC(fetch_add, u32, "add.u32", "r")
TILE_ATOMIC(fetch_add, u64, "add.u64", "l")
TILE_ATOMIC(fetch_add, f32, "add.f32", "f")
TILE_ATOMIC(fetch_add, f64, "add.f64", "d")
TILE_ATOMIC(fetch_max, i32, "max.s32", "r")
TILE_ATOMIC(fetch_max, u32, "max.u32", "r")
TILE_ATOMIC(fetch_max, i64, "max.s64", "l")
TILE_ATOMIC(fetch_max, u64, "max.u64", "l")
TILE_ATOMIC(fetch_min, i32, "min.s32", "r")
TILE_ATOMIC(fetch_min, u32, "min.u32", "r")
TILE_ATOMIC(fetch_min, i64, "min.s64", "l")
TILE_ATOMIC(fetch_min, u64, "min.u64", "l")
TILE_ATOMIC(fetch_and, u32, "and.b32", "r")
TILE_ATOMIC(fetch_and, u64, "and.b64", "l")
TILE_ATOMIC(fetch_or, u32, "or.b32", "r")
TILE_ATOMIC(fetch_or, u64, "or.b64", "l")
TILE_ATOMIC(fetch_xor, u32, "xor.b32", "r")
TILE_ATOMIC(fetch_xor, u64, "xor.b64", "l")
TILE_ATOMIC(exchange, u32, "exch.b32", "r")
TILE_ATOMIC(exchange, u64, "exch.b64", "l")

// Words. `around` means that the word extends beyond an array of smaller elements.
#define TILE_COMPARE(SCOPE, TYPE, REGISTER)                                  \
  asm volatile("atom.relaxed." SCOPE ".global.cas." TYPE " %0, [%1], %2, %3;" \
               : "=" REGISTER(before)                                        \
               : "l"(at), REGISTER(expected), REGISTER(wanted)               \
               : "memory")
#define TILE_LOAD(SCOPE, TYPE, REGISTER) \
  asm volatile("ld.relaxed." SCOPE ".global." TYPE " %0, [%1];" : "=" REGISTER(x) : "l"(at) : "memory")
#define TILE_STORE(SCOPE, TYPE, REGISTER) \
  asm volatile("st.relaxed." SCOPE ".global." TYPE " [%0], %1;" ::"l"(at), REGISTER(x) : "memory")
#define TILE_WORD(T, TYPE, REGISTER)               \
  template <Scope scope, bool around = false>      \
  TILE T load_word(const T* at, int) {             \
    T x;                                           \
    TILE_IN_SCOPE(TILE_LOAD, TYPE, REGISTER)       \
    return x;                                      \
  }                                                \
  template <Scope scope>                           \
  TILE void store_word(T* at, T x, int) {          \
    TILE_IN_SCOPE(TILE_STORE, TYPE, REGISTER)      \
  }
#define TILE_COMPARED(T, TYPE, REGISTER)                     \
  template <Scope scope, bool around = false>                \
  TILE T compare_exchange(T* at, T expected, T wanted, int) { \
    T before;                                                \
    TILE_IN_SCOPE(TILE_COMPARE, TYPE, REGISTER)              \
    return before;                                           \
  }
TILE_WORD(u16, "b16", "h")
TILE_WORD(u32, "b32", "r")
TILE_WORD(u64, "b64", "l")
TILE_COMPARED(u32, "b32", "r")
TILE_COMPARED(u64, "b64", "l")
template <Scope scope>
TILE u8 load_word(const u8* at, int) {
  u32 x;
  TILE_IN_SCOPE(TILE_LOAD, "u8", "r")
  return (u8)x;
}
template <Scope scope>
TILE void store_word(u8* at, u8 value, int) {
  const u32 x = value;
  TILE_IN_SCOPE(TILE_STORE, "u8", "r")
}
#undef TILE_IN_SCOPE
#undef TILE_FENCE
#undef TILE_CHANGE
#undef TILE_ATOMIC
#undef TILE_COMPARE
#undef TILE_LOAD
#undef TILE_STORE
#undef TILE_WORD
#undef TILE_COMPARED

// Additions whose old value is not used.
TILE void atomic_add_global(f32* to, f32 x, int) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}
TILE void atomic_add_global(f64* to, f64 x, int) {
  asm volatile("red.global.add.f64 [%0], %1;" ::"l"(to), "d"(x) : "memory");
}
TILE void atomic_add_global(i32* to, i32 x, int) {
  asm volatile("red.global.add.u32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}
TILE void atomic_add_global(i64* to, i64 x, int) {
  asm volatile("red.global.add.u64 [%0], %1;" ::"l"(to), "l"(x) : "memory");
}
// Adds to two adjacent elements; the address is aligned to the pair.
TILE void atomic_add_global_pair(f32* to, f32 x, f32 y, int line) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y) : "memory");
#else
  atomic_add_global(to, x, line);
  atomic_add_global(to + 1, y, line);
#endif
}
// The same for four of them.
TILE void atomic_add_global_four(f32* to, const f32* x, int line) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]),
               "f"(x[3])
               : "memory");
#else
  atomic_add_global_pair(to, x[0], x[1], line);
  atomic_add_global_pair(to + 2, x[2], x[3], line);
#endif
}
// 16-bit floats, by their bits, on chips that add them; also pairs at a multiple of 4 bytes.
struct bf16;
struct f16;
template <class T>
constexpr bool adds_global = false;
template <class T>
TILE void atomic_add_global_bits(u16* to, u16 x, int line);
template <class T>
TILE void atomic_add_global_bits(u32* to, u32 x, int line);
template <>
constexpr bool adds_global<f16> = true;
template <>
TILE void atomic_add_global_bits<f16>(u16* to, u16 x, int) {
  asm volatile("red.global.add.noftz.f16 [%0], %1;" ::"l"(to), "h"(x) : "memory");
}
template <>
TILE void atomic_add_global_bits<f16>(u32* to, u32 x, int) {
  asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}
#if __CUDA_ARCH__ >= 900
template <>
constexpr bool adds_global<bf16> = true;
template <>
TILE void atomic_add_global_bits<bf16>(u16* to, u16 x, int) {
  asm volatile("red.global.add.noftz.bf16 [%0], %1;" ::"l"(to), "h"(x) : "memory");
}
template <>
TILE void atomic_add_global_bits<bf16>(u32* to, u32 x, int) {
  asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}
#endif

}  // namespace tile
