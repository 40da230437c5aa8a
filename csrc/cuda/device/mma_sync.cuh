// Products on the tensor cores, in blocks of 16 x 8 (multiply_block in tensor_cores.cuh defines which thread
// holds which element).
//
// A warp computes `blocks_m` x `blocks_n` blocks of the product; warps_n warps are arranged along the
// columns. An operand is in shared memory with k along its rows or, transposed, across them: matrices.cuh
// reads both.
#pragma once
#include "cuda/device/matrices.cuh"

namespace tile {

// The left operand in shared memory, plain or transposed. `own` is the number of rows of a warp.
template <class S, bool transposed>
struct SharedLeft {
  S tile;
  template <int own, int k>
  struct From {
    Matrices<S, own, k, !transposed, false> matrices;
    TILE From(const SharedLeft& left, int row) : matrices(left.tile, row) {}
    template <class Word>
    TILE void load(Word (&to)[4], int block, int step, int line) const {
      matrices.load(to, block * 16, step, line);
    }
  };
};
// The left operand in registers: the accumulator of a product of [m, k], rounded to 16 bits.
template <class T, class L>
struct RegisterLeft {
  const Tile<T, L>& tile;
  template <int own, int k>
  struct From {
    const Tile<T, L>& tile;
    TILE From(const RegisterLeft& left, int) : tile(left.tile) {}
    TILE void load(u32 (&to)[4], int block, int step, int) const {
      TILE_UNROLL
      for (int i = 0; i < 4; ++i) to[i] = pair_at(tile, ((block * k + step) / 8 + i / 2) * 4 + i % 2 * 2);
    }
  };
};
// The right operand; loads one or two blocks of 8 columns at once. `own` is the number of columns of a warp.
template <class S, bool transposed>
struct SharedRight {
  // Columns 2 i and 2 i + 1 of 16 are column i of two blocks.
  static constexpr bool paired = sizeof(typename S::Element) == 1 && !transposed;
  S tile;
  template <int own, int k>
  struct From {
    Matrices<S, own, k, transposed, true> matrices;
    TILE From(const SharedRight& right, int column) : matrices(right.tile, column) {}
    template <class Word>
    TILE void load(Word (&to)[4], int step, int block, int line) const {
      matrices.load(to, block * 8, step, line);
    }
  };
};

// Operands of two dtypes.
template <class X, class Y>
struct Mixed {};
// The instruction for operands of T: the word type of its fragments and its depth.
template <class T>
struct MmaOf {
  using Left = T;
  using Right = T;
  using Word = u32;
  static constexpr int depth = 32 / sizeof(T);
};
template <class X, class Y>
struct MmaOf<Mixed<X, Y>> : MmaOf<X> {
  using Right = Y;
};
template <>
struct MmaOf<f64> {
  using Left = f64;
  using Right = f64;
  using Word = f64;
  static constexpr int depth = 8;
};

// A warp's part of a product of depth k.
template <class T, int k_, int blocks_m_, int blocks_n_, int warps_m, int warps_n>
struct Part {
  static constexpr int k = k_, blocks_m = blocks_m_, blocks_n = blocks_n_, depth = MmaOf<T>::depth;
  static constexpr int together = blocks_n % 2 ? 1 : 2;  // blocks of a right fragment
  using Word = typename MmaOf<T>::Word;
  using Left = Word[blocks_m][4];
  using Right = Word[4];
  TILE static int row() { return warp() / warps_n % warps_m * blocks_m * 16; }
  TILE static int column() { return warp() % warps_n * blocks_n * 8; }
  // Multiplies all rows by the right fragment's blocks, n and the following.
  template <bool paired, class Sum, class L>
  TILE static void multiply(Tile<Sum, L>& sums, const Left& a, const Right& b, int n) {
    static_assert(L::registers == blocks_m * blocks_n * 4, "the accumulator has another layout");
    TILE_UNROLL
    for (int m = 0; m < blocks_m; ++m) {
      Sum* const own = &sums.x[(m * blocks_n + n) * 4];
      TILE_UNROLL
      for (int i = 0; i < together; ++i)
        multiply_block<typename MmaOf<T>::Left, typename MmaOf<T>::Right>(
            own + (paired ? i : i * 4), paired ? 2 : 1, a[m], b[i * 2], b[i * 2 + 1]);
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

template <class Part, class Sum, class L, class Left, class Right>
TILE Tile<Sum, L> mma_sync(const Left& left, const Right& right, Tile<Sum, L> sums, int line) {
  const Operands<Part, Left, Right> operands(left, right);
  TILE_UNROLL
  for (int step = 0; step < Part::k; step += Part::depth) {
    typename Part::Left a;
    operands.load_left(a, step, line);
    TILE_UNROLL
    for (int n = 0; n < Part::blocks_n; n += Part::together) {
      typename Part::Right b;
      operands.right.load(b, step, n, line);
      Part::template multiply<Right::paired>(sums, a, b, n);
    }
  }
  return sums;
}

// The fragments of one step of k, for loops that only compute products: they are read while the previous step
// is multiplied.
template <class Part>
struct Fragments {
  typename Part::Left left;
  typename Part::Right right[Part::blocks_n / Part::together];
  template <class Left, class Right>
  TILE void load(const Operands<Part, Left, Right>& operands, int step, int line) {
    operands.load_left(left, step, line);
    TILE_UNROLL
    for (int n = 0; n < Part::blocks_n; n += Part::together)
      operands.right.load(right[n / Part::together], step, n, line);
  }
};
template <class Part, class Left, class Right>
TILE void load_first(Fragments<Part>& to, const Left& left, const Right& right, int line) {
  to.load(Operands<Part, Left, Right>(left, right), 0, line);
}
// One iteration. `first` holds its first fragments on entry and those of the next iteration, loaded by
// next_iteration(), on exit. copies() starts the copies for a later iteration.
template <class Part, class Sum, class L, class Left, class Right, class Copies, class NextIteration>
TILE Tile<Sum, L> mma_iteration(Fragments<Part>& first, const Left& left, const Right& right,
                                Tile<Sum, L> sums, Copies copies, NextIteration next_iteration, int line) {
  const Operands<Part, Left, Right> operands(left, right);
  TILE_UNROLL
  for (int step = 0; step < Part::k; step += Part::depth) {
    const Fragments<Part> now = first;
    const bool last = step + Part::depth >= Part::k;
    if (!last) first.load(operands, step + Part::depth, line);
    if (step == 0) copies();
    if (last) next_iteration();
    TILE_UNROLL
    for (int n = 0; n < Part::blocks_n; n += Part::together)
      Part::template multiply<Right::paired>(sums, now.left, now.right[n / Part::together], n);
  }
  return sums;
}

}  // namespace tile
