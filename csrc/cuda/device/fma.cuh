// Products of f32 tiles in shared memory by FMA. A thread holds the sums of a block of rows and columns, and
// reads each of their elements once per step of k.
#pragma once
#include "cuda/device/math.cuh"
#include "cuda/device/shared_tile.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// A tile that is only read along its rows, where a permutation of chunks would only cost instructions.
template <class T, int rows_, int width_>
struct FlatTile {
  using Element = T;
  static constexpr int rows = rows_, width = width_, chunk = 16 / sizeof(T), chunks = width / chunk;
  static constexpr int swizzle = 1, period = 1;
  char* memory;
  TILE static constexpr int exchange(int) { return 0; }
  TILE char* address(int row, int c) const { return memory + (row * chunks + c) * 16; }
};

struct alignas(16) FourFloats {
  f32 x[4];
};

// A thread's elements of an operand: `count` rows of the left one or columns of the right one, on axis `axis`
// of the sums' layout.
//
// A tile's permutation of chunks is linear over the bits of the row, and its period is 8 rows. The layout's
// parts of a coordinate, and `step` and its steps, share none of the lowest three bits.
template <class S, class L, int axis, int registers, int count>
struct FmaOperand {
  TILE static constexpr int element(int i) { return L::element(axis, i * registers); }
  static constexpr bool adjacent = element(1) == 1;
  char* memory;
  int own;
  TILE FmaOperand(const S& tile) : memory(tile.memory), own(L::thread(axis)) {}
  // Chunk numbers are added where nothing is permuted: the sum folds into the address.
  TILE static int chunk_of(int own, int constant) {
    return S::swizzle == 1 ? own + constant : own ^ constant;
  }

  // Four elements of the tile's row for element i, which runs along k.
  TILE void along(f32 (&to)[4], int i, int step, int q, int line) const {
    const int chunk = chunk_of(step / 4 ^ S::exchange(own), q / 4 ^ S::exchange(element(i)));
    const auto four = load_shared<FourFloats>(
        memory + own * (S::chunks * 16) + chunk * 16 + element(i) * (S::chunks * 16), line);
    TILE_UNROLL
    for (int kk = 0; kk < 4; ++kk) to[kk] = four.x[kk];
  }
  // All elements of one step of k, which crosses the rows of the tile.
  TILE void all(f32 (&to)[count], int step, int q, int line) const {
    char* const row = memory + step * (S::chunks * 16) + q * (S::chunks * 16);
    if constexpr (adjacent) {
      TILE_UNROLL
      for (int i = 0; i < count; i += 4) {
        const int chunk = S::swizzle == 1 ? own / 4 + element(i) / 4
                                          : (own / 4 + element(i) / 4) ^ S::exchange(step) ^ S::exchange(q);
        const auto four = load_shared<FourFloats>(row + chunk * 16, line);
        TILE_UNROLL
        for (int n = 0; n < 4; ++n) to[i + n] = four.x[n];
      }
    } else {
      TILE_UNROLL
      for (int i = 0; i < count; ++i) {
        const int at = own + element(i), chunk = at / 4 ^ S::exchange(step) ^ S::exchange(q);
        to[i] = load_shared<f32>(row + chunk * 16 + at % 4 * 4, line);
      }
    }
  }
  // Four elements along k of every row or column.
  TILE void all_along(f32 (&to)[4][count], int step, int q, int line) const {
    TILE_UNROLL
    for (int i = 0; i < count; ++i) {
      f32 one[4];
      along(one, i, step, q, line);
      TILE_UNROLL
      for (int n = 0; n < 4; ++n) to[n][i] = one[n];
    }
  }
};

// Adds left * right to the sums in ascending order of k. Small blocks have registers for sums of parts of k,
// which are added part by part: shorter sums round less. If both operands are read along k, only one vector
// of the left one is in registers at a time, and its four elements serve all columns.
template <int k, int rows, int columns, bool left_across, bool right_across, class Left, class Right, class L>
TILE Tile<f32, L> fma_blocks(const Left& left, const Right& right, const Tile<f32, L>& before, int line) {
  static_assert(L::registers == rows * columns, "the sums have another layout");
  constexpr bool in_parts = L::registers <= 32;
  Tile<f32, L> sums = before, total = before;
  const auto begin_part = [&] {
    if constexpr (in_parts) sums = full<L>(0.0f);
  };
  const auto end_part = [&] {
    if constexpr (in_parts) {
      TILE_UNROLL
      for (int r = 0; r < L::registers; ++r) total.x[r] += sums.x[r];
    }
  };
  const FmaOperand<Left, L, 0, columns, rows> x(left);
  const FmaOperand<Right, L, 1, 1, columns> y(right);
  if constexpr (left_across && right_across) {
    // The next step's elements are read while this one's are multiplied, also those of the loop's next
    // iteration. Past the last step the first one's are read again, and not used.
    constexpr int depth = k % 16 == 0 ? 16 : k % 8 == 0 ? 8 : 4;
    f32 a[2][rows], b[2][columns];
    x.all(a[0], 0, 0, line);
    y.all(b[0], 0, 0, line);
    TILE_LOOP for (int step = 0; step < k; step += depth) {
      begin_part();
      const int next = step + depth < k ? step + depth : 0;
      TILE_UNROLL
      for (int q = 0; q < depth; ++q) {
        const bool inside = q + 1 < depth;
        if (inside || depth < k) {
          x.all(a[(q + 1) % 2], inside ? step : next, inside ? q + 1 : 0, line);
          y.all(b[(q + 1) % 2], inside ? step : next, inside ? q + 1 : 0, line);
        }
        TILE_UNROLL
        for (int r = 0; r < rows * columns; ++r)
          sums.x[r] = math::fma(a[q % 2][r / columns], b[q % 2][r % columns], sums.x[r]);
      }
      end_part();
    }
  } else {
    // Operands that are read along k occupy registers for four steps, which leaves none to read more of them
    // ahead: other warps hide the wait.
    constexpr int part = in_parts && k % 16 == 0 ? 16 : k;
    TILE_LOOP for (int from = 0; from < k; from += part) {
      begin_part();
      TILE_LOOP for (int step = from; step < from + part; step += 4) {
        f32 a[left_across ? 1 : 4][rows], b[right_across ? 1 : 4][columns];
        if constexpr (!right_across) y.all_along(b, step, 0, line);
        if constexpr (left_across || right_across) {
          if constexpr (!left_across) x.all_along(a, step, 0, line);
          TILE_UNROLL
          for (int n = 0; n < 4; ++n) {
            if constexpr (left_across) x.all(a[0], step, n, line);
            if constexpr (right_across) y.all(b[0], step, n, line);
            TILE_UNROLL
            for (int r = 0; r < rows * columns; ++r)
              sums.x[r] = math::fma(a[left_across ? 0 : n][r / columns], b[right_across ? 0 : n][r % columns],
                                    sums.x[r]);
          }
        } else {
          TILE_UNROLL
          for (int i = 0; i < rows; ++i) {
            f32 one[4];
            x.along(one, i, step, 0, line);
            TILE_UNROLL
            for (int r = 0; r < 4 * columns; ++r) {
              f32& sum = sums.x[i * columns + r % columns];
              sum = math::fma(one[r / columns], b[r / columns][r % columns], sum);
            }
          }
        }
      }
      end_part();
    }
  }
  return in_parts ? total : sums;
}

}  // namespace tile
