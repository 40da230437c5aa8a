// AMX's tile registers: eight of 16 rows of 64 bytes, with one function per instruction. They use assembly,
// because the compilers' intrinsics do not declare that they access memory and require options for whole
// files.
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

// The registers are zero after `configure` and unavailable from `release` to the next `configure`. A thread
// that has released them adds no cost to context switches.
struct AmxRegisters {
  static TILE_INLINE void configure(const TileShapes& shapes) {
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  static TILE_INLINE void release() { asm volatile("tilerelease"); }
  template <int tile>
  static TILE_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  // Rows are `stride` bytes apart.
  template <int tile>
  static TILE_INLINE void load(const void* from, long stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(tile) : "memory");
  }
  template <int tile>
  static TILE_INLINE void store(void* to, long stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(tile) : "memory");
  }
  // c (16 x 16 f32) += a (16 x 32 bf16) times b (16 x 16 pairs of bf16, whose row i has k = 2i and 2i + 1).
  // Even and odd k are summed separately in f32 and then added to c. Subnormal numbers of f32 count as 0.
  template <int c, int a, int b>
  static TILE_INLINE void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

}  // namespace tile::cpu::TILE_ISA
