// A software model of the tile registers, one set for all threads, and the products that use it.
#include "cpu/isa/tile_twin.h"

#include "cpu/vecmath/vec.h"

#if TILE_VECTOR_BYTES == 64
#include "cpu/gemm/isa/gemm_tiles.h"

namespace tile::cpu::TILE_ISA {
namespace {

struct Tile {
  union {
    float f32[16][16];
    uint16_t bf16[16][32];
  };
};
Tile tiles[8];
bool configured = false;
int fault_count = 0;
void use() { fault_count += !configured; }

float widened(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
// The instruction treats subnormals as 0 and flushes subnormal results, whatever the control register says.
float flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.f, x) : x; }

// Like AmxRegisters, with one function per instruction.
struct TwinRegisters {
  static void configure(const TileShapes& shapes) {
    fault_count += __builtin_memcmp(&shapes, &whole_tiles, sizeof shapes) != 0;
    configured = true;
    for (Tile& tile : tiles) tile = {};
  }
  static void release() { configured = false; }
  template <int tile>
  static void zero() {
    use();
    tiles[tile] = {};
  }
  template <int tile>
  static void load(const void* from, long stride) {
    use();
    for (int row = 0; row < 16; ++row)
      __builtin_memcpy(tiles[tile].f32[row], static_cast<const char*>(from) + row * stride, 64);
  }
  template <int tile>
  static void store(void* to, long stride) {
    use();
    for (int row = 0; row < 16; ++row)
      __builtin_memcpy(static_cast<char*>(to) + row * stride, tiles[tile].f32[row], 64);
  }
  template <int c, int a, int b>
  static void multiply() {
    use();
    for (int m = 0; m < 16; ++m) {
      float sum[32] = {};  // of even and odd k, column by column
      for (int k = 0; k < 16; ++k)
        for (int i = 0; i < 32; ++i)
          sum[i] = flushed(__builtin_fmaf(flushed(widened(tiles[a].bf16[m][2 * k + i % 2])),
                                          flushed(widened(tiles[b].bf16[k][i])), sum[i]));
      for (int n = 0; n < 16; ++n) {
        float& to = tiles[c].f32[m][n];
        to = flushed(flushed(to) + flushed(sum[2 * n] + sum[2 * n + 1]));
      }
    }
  }
};

constexpr GemmKernels kernels = tile_kernels<TwinRegisters>();
const GemmKernels looped = with_loops<kernels>();

}  // namespace

extern const TileTwin tile_twin = {&looped, [] { return fault_count; }};

}  // namespace tile::cpu::TILE_ISA
#else
namespace tile::cpu::TILE_ISA {
extern const TileTwin tile_twin = {nullptr, nullptr};
}
#endif
