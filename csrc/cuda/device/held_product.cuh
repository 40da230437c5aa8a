// Products that read the first steps of their left operand from registers. The emulator replaces this file.
#pragma once
#include "cuda/device/wgmma.cuh"

namespace tile {

// Starts a product as mma_issued() does. `held` has the first P::held steps of the left operand, as
// mma_issued_from_registers() takes them.
template <class P, class Sum, class L, class T, class LL>
TILE Tile<Sum, L> mma_issued_with(Tile<Sum, L> sums, const Tile<T, LL>& held, SharedAddress left,
                                  SharedAddress right, bool add, int) {
  constexpr int words = P::rows * P::held * 4;
  static_assert(L::registers == P::rows * P::columns / 2, "these are not the sums of the product");
  static_assert(LL::registers * sizeof(T) == words * 4, "this is not a part of the left operand");
  u32 own[words];
  TILE_UNROLL
  for (int i = 0; i < words; ++i) memcpy(&own[i], &held.x[i * (4 / (int)sizeof(T))], 4);
  P::multiply(sums.x, own, matrix_descriptor(left, P::left_leading, P::left_stride, P::left_mode),
              matrix_descriptor(right, P::right_leading, P::right_stride, P::right_mode), (u32)add);
  return sums;
}

}  // namespace tile
