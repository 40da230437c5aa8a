// Matrix products of tiles. By FMA: every thread sums its elements of the product from operands in shared
// memory, each row and column read once a step of k.
#pragma once
#include "cuda/device/math.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// Batch, row and column of register r; a product of two axes has one batch.
template <class L>
TILE int product_coordinate(int axis, int r) {
  const int own = axis - (3 - L::rank);
  return own < 0 ? 0 : L::thread(own) + L::element(own, r);
}

// What a product of T is computed in.
template <class T, class A>
struct Factor {
  TILE static A of(T x) { return (A)LaneOf<T>::in(x); }
};
// x: [batch, m, k] and y: [batch, k, n], row-major.
template <int m, int n, int k, class A, class L, class X, class Y>
TILE Tile<A, L> mma_fma(const X* x, const Y* y, const Tile<A, L>& to, int line) {
  using Sum = typename SumOf<A>::type;
  Sum sums[L::registers];
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r)
    sums[r] = Sum(0);  // added to `to` at the end: shorter sums round less
  int rows[L::registers], columns[L::registers];
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) {
    const bool inside = valid<L>(r);
    const int batch = inside ? product_coordinate<L>(0, r) : 0;
    rows[r] = (batch * m + (inside ? product_coordinate<L>(1, r) : 0)) * k;
    columns[r] = batch * k * n + (inside ? product_coordinate<L>(2, r) : 0);
  }
  TILE_LOOP for (int step = 0; step < k; ++step) {
    TILE_UNROLL
    for (int r = 0; r < L::registers; ++r) {
      const Sum a = Factor<X, Sum>::of(load_shared<X>(x + rows[r] + step, line));
      const Sum b = Factor<Y, Sum>::of(load_shared<Y>(y + columns[r] + step * n, line));
      if constexpr (IsInteger<Sum>::value)
        sums[r] = (Sum)((u32)sums[r] + (u32)a * (u32)b);
      else
        sums[r] = math::fma(a, b, sums[r]);
    }
  }
  Tile<A, L> result;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r)
    result.x[r] =
        convert<A>(LaneOf<Sum>::out(LaneOf<Sum>::in(convert<Sum>(to.x[r])) + LaneOf<Sum>::in(sums[r])));
  return result;
}

}  // namespace tile
