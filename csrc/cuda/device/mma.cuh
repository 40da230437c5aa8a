// Matrix products of tiles by FMA: every thread sums its elements of the product from operands in shared
// memory and reads each row and column once per step of k.
#pragma once
#include "cuda/device/math.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// The batch, row or column of register r; a product of two axes has one batch.
template <class L>
TILE int product_coordinate(int axis, int r) {
  const int own = axis - (3 - L::rank);
  return own < 0 ? 0 : L::thread(own) + L::element(own, r);
}

// x is [batch, m, k] and y is [batch, k, n], row-major.
template <int m, int n, int k, class A, class L, class X, class Y>
TILE Tile<A, L> mma_fma(const X* x, const Y* y, const Tile<A, L>& to, int line) {
  using Sum = typename SumOf<A>::type;
  using Lane = LaneOf<Sum>;
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
      const auto a = Lane::in(convert<Sum>(load_shared<X>(x + rows[r] + step, line)));
      const auto b = Lane::in(convert<Sum>(load_shared<Y>(y + columns[r] + step * n, line)));
      sums[r] = Lane::out(math::fma(a, b, Lane::in(sums[r])));
    }
  }
  Tile<A, L> result;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r)
    result.x[r] = convert<A>(Lane::out(Lane::in(convert<Sum>(to.x[r])) + Lane::in(sums[r])));
  return result;
}

}  // namespace tile
