// Products on the tensor cores: mma.sync of 16 x 8 x 16, operands of 16 bits, sums in float32.
//
// A warp has `blocks_m` x `blocks_n` blocks of 16 x 8 of the product, warps_n warps stand side by side. Of a
// block a thread holds rows lane / 4 and lane / 4 + 8, columns lane % 4 * 2 and the next (PTX ISA, fragments
// of mma.m16n8k16).
#pragma once
#include "cuda/device/shared_tile.cuh"

namespace tile {

// 8 x 8 matrices at multiples of 16 rows and columns from where the lane's row of the first begins: the rows
// lie at constant distances, and of the columns only the exchange of chunks is not a constant. A warp begins
// at a multiple of `own` columns, of which it reads that many.
template <class S, int own>
struct Matrices {
  static constexpr int exchange = (S::turns - 1) * 16;
  static constexpr bool separate = S::turns == 1 || own % (S::turns * S::chunk) == 0 || (own & (own - 1)) == 0;
  S tile;
  int row, column;
  SharedPlace first;
  TILE Matrices(const S& tile, int row, int column)
      : tile(tile), row(row), column(column), first(shared_address(tile.place(row, column / S::chunk))) {}
  TILE SharedPlace at(int down, int right) const {
    if (!separate) return shared_address(tile.place(row + down, (column + right) / S::chunk));
    const int bytes = right * 16 / S::chunk;
    return (first ^ (SharedPlace)(bytes & exchange)) + ((bytes & ~exchange) + down * S::chunks * 16);
  }
};

// The left operand in shared memory, by rows or turned; `own`: rows of a warp.
template <class S, bool turned>
struct SharedLeft {
  S tile;
  template <int own, int k>
  struct From {
    Matrices<S, turned ? own : k> matrices;
    TILE From(const SharedLeft& left, int row)
        : matrices(left.tile, turned ? lane() % 8 + lane() / 16 * 8 : row + lane() % 16,
                   turned ? row + lane() / 8 % 2 * 8 : lane() / 16 * 8) {}
    TILE void load(u32 (&to)[4], int block, int step, int line) const {
      load_matrices<turned>(to, turned ? matrices.at(step, block * 16) : matrices.at(block * 16, step), line);
    }
  };
};
// In registers: the accumulator of a product of [m, k], rounded.
template <class T, class L>
struct RegisterLeft {
  const Tile<T, L>& tile;
  template <int own, int k>
  struct From {
    const Tile<T, L>& tile;
    TILE From(const RegisterLeft& left, int) : tile(left.tile) {}
    TILE void load(u32 (&to)[4], int block, int step, int) const {
      TILE_UNROLL
      for (int i = 0; i < 4; ++i)
        to[i] = pair_at(tile, ((block * k + step) / 8 + i / 2) * 4 + i % 2 * 2);
    }
  };
};
// The right operand, two blocks of 8 columns at once; `own`: columns of a warp.
template <class S, bool turned>
struct SharedRight {
  S tile;
  template <int own, int k>
  struct From {
    Matrices<S, turned ? k : own> matrices;
    TILE From(const SharedRight& right, int column)
        : matrices(right.tile, turned ? column + lane() % 8 + lane() / 16 * 8 : lane() % 16,
                   turned ? lane() / 8 % 2 * 8 : column + lane() / 16 * 8) {}
    TILE void load(u32 (&to)[4], int step, int block, int line) const {
      load_matrices<!turned>(to, turned ? matrices.at(block * 8, step) : matrices.at(step, block * 8), line);
    }
  };
};

template <class T, int k, int blocks_m, int blocks_n, int warps_m, int warps_n, class L, class Left,
          class Right>
TILE Tile<f32, L> mma_sync(const Left& left, const Right& right, Tile<f32, L> sums, int line) {
  static_assert(L::registers == blocks_m * blocks_n * 4, "the accumulator has another layout");
  const int row = warp() / warps_n % warps_m * blocks_m * 16, column = warp() % warps_n * blocks_n * 8;
  const typename Left::template From<blocks_m * 16, k> from_left(left, row);
  const typename Right::template From<blocks_n * 8, k> from_right(right, column);
  TILE_UNROLL
  for (int step = 0; step < k; step += 16) {
    u32 a[blocks_m][4];
    TILE_UNROLL
    for (int m = 0; m < blocks_m; ++m) from_left.load(a[m], m, step, line);
    TILE_UNROLL
    for (int n = 0; n < blocks_n; n += 2) {
      u32 b[4];
      from_right.load(b, step, n, line);
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
