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

// The part of a warp in a product of depth k.
template <class T, int k_, int blocks_m_, int blocks_n_, int warps_m, int warps_n>
struct Part {
  static constexpr int k = k_, blocks_m = blocks_m_, blocks_n = blocks_n_;
  using Left = u32[blocks_m][4];
  using Right = u32[4];  // of two blocks
  TILE static int row() { return warp() / warps_n % warps_m * blocks_m * 16; }
  TILE static int column() { return warp() % warps_n * blocks_n * 8; }
  // Blocks n and n + 1 of all rows.
  template <class L>
  TILE static void multiply(Tile<f32, L>& sums, const Left& a, const Right& b, int n) {
    static_assert(L::registers == blocks_m * blocks_n * 4, "the accumulator has another layout");
    TILE_UNROLL
    for (int m = 0; m < blocks_m; ++m) {
      mma_16_8_16<T>(&sums.x[(m * blocks_n + n) * 4], a[m], b[0], b[1]);
      mma_16_8_16<T>(&sums.x[(m * blocks_n + n + 1) * 4], a[m], b[2], b[3]);
    }
  }
};
template <class Part, class Left, class Right>
struct Operands {
  typename Left::template From<Part::blocks_m * 16, Part::k> left;
  typename Right::template From<Part::blocks_n * 8, Part::k> right;
  TILE Operands(const Left& left, const Right& right)
      : left(left, Part::row()), right(right, Part::column()) {}
  TILE void load_left(typename Part::Left& to, int step, int line) const {
    TILE_UNROLL
    for (int m = 0; m < Part::blocks_m; ++m) left.load(to[m], m, step, line);
  }
};

template <class Part, class L, class Left, class Right>
TILE Tile<f32, L> mma_sync(const Left& left, const Right& right, Tile<f32, L> sums, int line) {
  const Operands<Part, Left, Right> operands(left, right);
  TILE_UNROLL
  for (int step = 0; step < Part::k; step += 16) {
    typename Part::Left a;
    operands.load_left(a, step, line);
    TILE_UNROLL
    for (int n = 0; n < Part::blocks_n; n += 2) {
      typename Part::Right b;
      operands.right.load(b, step, n, line);
      Part::multiply(sums, a, b, n);
    }
  }
  return sums;
}

// Of a loop of products alone: what 16 steps of k multiply, which is read while the 16 before are multiplied.
template <class Part>
struct Fragments {
  typename Part::Left left;
  typename Part::Right right[Part::blocks_n / 2];
  template <class Left, class Right>
  TILE void load(const Operands<Part, Left, Right>& operands, int step, int line) {
    operands.load_left(left, step, line);
    TILE_UNROLL
    for (int n = 0; n < Part::blocks_n; n += 2) operands.right.load(right[n / 2], step, n, line);
  }
};
template <class Part, class Left, class Right>
TILE void load_first(Fragments<Part>& to, const Left& left, const Right& right, int line) {
  to.load(Operands<Part, Left, Right>(left, right), 0, line);
}
// A turn. `first`: the fragments it begins with, and behind it those of the next turn, which next_turn() loads;
// copies() begins with the buffers of a later one.
template <class Part, class L, class Left, class Right, class Copies, class NextTurn>
TILE Tile<f32, L> mma_turn(Fragments<Part>& first, const Left& left, const Right& right, Tile<f32, L> sums,
                           Copies copies, NextTurn next_turn, int line) {
  const Operands<Part, Left, Right> operands(left, right);
  TILE_UNROLL
  for (int step = 0; step < Part::k; step += 16) {
    const Fragments<Part> now = first;
    const bool last = step + 16 >= Part::k;
    if (!last) first.load(operands, step + 16, line);
    if (step == 0) copies();
    if (last) next_turn();
    TILE_UNROLL
    for (int n = 0; n < Part::blocks_n; n += 2) Part::multiply(sums, now.left, now.right[n / 2], n);
  }
  return sums;
}

}  // namespace tile
