// Products on the tensor cores: mma.sync of 16 x 8 x 16, operands of 16 bits, sums in float32.
//
// A warp has `blocks_m` x `blocks_n` blocks of 16 x 8 of the product, warps_n warps stand side by side. Of a
// block a thread holds rows lane / 4 and lane / 4 + 8, columns lane % 4 * 2 and the next (PTX ISA, fragments
// of mma.m16n8k16).
#pragma once
#include "cuda/device/shared_tile.cuh"

namespace tile {

// The left operand in shared memory, by rows or turned.
template <class S, bool turned>
struct SharedLeft {
  S tile;
  TILE void load(u32 (&to)[4], int row, int k, int line) const {
    const int l = lane();
    if (turned)
      load_matrices<true>(to, tile.place(k + l % 8 + l / 16 * 8, (row + l / 8 % 2 * 8) / 8), line);
    else
      load_matrices<false>(to, tile.place(row + l % 16, (k + l / 16 * 8) / 8), line);
  }
};
// In registers: the accumulator of a product of [m, k], rounded.
template <class T, class L>
struct RegisterLeft {
  const Tile<T, L>& tile;
  template <int k_blocks>
  TILE void take(u32 (&to)[4], int block, int k) const {
    TILE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int r = (block * k_blocks + k / 8 + i / 2) * 4 + i % 2 * 2;
      to[i] = (u32)tile.x[r].bits | (u32)tile.x[r + 1].bits << 16;
    }
  }
};
// The right operand, two blocks of 8 columns at once.
template <class S, bool turned>
struct SharedRight {
  S tile;
  TILE void load(u32 (&to)[4], int k, int column, int line) const {
    const int l = lane();
    if (turned)
      load_matrices<false>(to, tile.place(column + l % 8 + l / 16 * 8, (k + l / 8 % 2 * 8) / 8), line);
    else
      load_matrices<true>(to, tile.place(k + l % 16, (column + l / 16 * 8) / 8), line);
  }
};

template <class Left>
struct TakesLeft {
  template <int k_blocks>
  TILE static void of(const Left& left, u32 (&to)[4], int block, int row, int k, int line) {
    left.load(to, row, k, line);
  }
};
template <class T, class L>
struct TakesLeft<RegisterLeft<T, L>> {
  template <int k_blocks>
  TILE static void of(const RegisterLeft<T, L>& left, u32 (&to)[4], int block, int, int k, int) {
    left.template take<k_blocks>(to, block, k);
  }
};

template <class T, int k, int blocks_m, int blocks_n, int warps_m, int warps_n, class L, class Left,
          class Right>
TILE Tile<f32, L> mma_sync(const Left& left, const Right& right, Tile<f32, L> sums, int line) {
  static_assert(L::registers == blocks_m * blocks_n * 4, "the accumulator has another layout");
  const int row = warp() / warps_n % warps_m * blocks_m * 16, column = warp() % warps_n * blocks_n * 8;
  TILE_UNROLL
  for (int step = 0; step < k; step += 16) {
    u32 a[blocks_m][4];
    TILE_UNROLL
    for (int m = 0; m < blocks_m; ++m)
      TakesLeft<Left>::template of<k / 8>(left, a[m], m, row + m * 16, step, line);
    TILE_UNROLL
    for (int n = 0; n < blocks_n; n += 2) {
      u32 b[4];
      right.load(b, step, column + n * 8, line);
      TILE_UNROLL
      for (int m = 0; m < blocks_m; ++m) {
        mma_16_8_16<T>(&sums.x[(m * blocks_n + n) * 4], a[m], b[0], b[1]);
        mma_16_8_16<T>(&sums.x[(m * blocks_n + n + 1) * 4], a[m], b[2], b[3]);
      }
    }
  }
  return sums;
}

}  // namespace tile
