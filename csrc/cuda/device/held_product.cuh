// Products that read the first steps of their left operand from registers. The emulator replaces this file.
#pragma once
#include "cuda/device/wgmma.cuh"

namespace tile {

template <class P, int k, class Instruction, class Sum>
TILE void multiply_held(Sum* sums, const u32* held, u64 right, u32 add) {
  if constexpr (k < P::held) {
    constexpr int right0 = P::right_step(k) / 16;
    if constexpr (P::rows == 1) {
      Instruction::template multiply_four<!P::right_k_major, P::right_step(k + 1) / 16 - right0,
                                          P::right_step(k + 2) / 16 - right0,
                                          P::right_step(k + 3) / 16 - right0>(
          sums, held + k * 4, right + (u64)right0, k ? 1u : add);
    } else {
      TILE_UNROLL
      for (int i = 0; i < P::rows; ++i)
        Instruction::template multiply<!P::right_k_major>(
            sums + i * (P::columns / 2), held + (i * P::held + k) * 4, right + (u64)right0, k ? 1u : add);
    }
    multiply_held<P, k + (P::rows == 1 ? 4 : 1), Instruction>(sums, held, right, add);
  }
}
// Starts a product as mma_issued() does. `held` has the first P::held steps of the left operand, as
// mma_issued_from_registers() takes them.
template <class P, class Sum, class L, class T, class LL>
TILE Tile<Sum, L> mma_issued_with(Tile<Sum, L> sums, const Tile<T, LL>& held, SharedAddress left,
                                  SharedAddress right, bool add, int) {
  constexpr int words = P::rows * P::held * 4;
  static_assert(L::registers == P::rows * P::columns / 2, "these are not the sums of the product");
  static_assert(LL::registers * sizeof(T) == words * 4, "this is not a part of the left operand");
  static_assert(P::held % 4 == 0 && P::held < P::steps, "statements have four steps");
  u32 own[words];
  TILE_UNROLL
  for (int i = 0; i < words; ++i) {
    memcpy(&own[i], &held.x[i * (4 / (int)sizeof(T))], 4);
    asm volatile("" : "+r"(own[i])::"memory");
  }
  pin(sums);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  const u64 a = matrix_descriptor(left, P::left_leading, P::left_stride, P::left_mode),
            b = matrix_descriptor(right, P::right_leading, P::right_stride, P::right_mode);
  using Instruction = Wgmma<P::columns, typename P::Left, typename P::Right>;
  multiply_held<P, 0, Instruction>(sums.x, own, b, (u32)add);
  multiply_from<P, P::held, Instruction>(sums.x, a, b, 1u);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  return sums;
}

}  // namespace tile
