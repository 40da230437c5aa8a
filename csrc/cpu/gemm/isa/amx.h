// AMX's tile registers: eight of 16 rows of 64 bytes, an instruction a function. Assembly, as the compilers'
// own functions do not say that they touch memory, and want options for whole files.
#pragma once
#include "cpu/vecmath/vec.h"

namespace tile::cpu::TILE_ISA {

// The operand of ldtilecfg.
struct alignas(64) TileShapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[8], no_row_bytes[8];
  uint8_t rows[8], no_rows[8];
};
static_assert(sizeof(TileShapes) == 64);
static constexpr TileShapes whole_tiles{
    1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {}, {16, 16, 16, 16, 16, 16, 16, 16}, {}};

// Registers hold zeros after `configure`, and there are none from `release` to the next: a thread that gave
// them back costs the system nothing to stop and to start.
struct AmxRegisters {
  static TILE_INLINE void configure(const TileShapes& shapes) {
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  static TILE_INLINE void release() { asm volatile("tilerelease"); }
  template <int tile>
  static TILE_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  // Rows `stride` bytes apart.
  template <int tile>
  static TILE_INLINE void load(const void* from, long stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(tile) : "memory");
  }
  template <int tile>
  static TILE_INLINE void store(void* to, long stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(tile) : "memory");
  }
  // c, 16 x 16 of f32, += a, 16 x 32 of bf16, times b, 16 x 16 pairs of bf16: its row i
  // is k = 2i and 2i + 1. Even and odd k add up apart in f32 and then to c; numbers below f32's normal ones
  // count as 0.
  template <int c, int a, int b>
  static TILE_INLINE void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

}  // namespace tile::cpu::TILE_ISA
