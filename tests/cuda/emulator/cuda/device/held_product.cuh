// Products that read the first steps of their left operand from registers, on the host; replaces the file of
// this name in csrc.
#pragma once
#include "cuda/device/wgmma.cuh"

namespace tile {

template <class P, class Sum, class L, class T, class LL>
TILE Tile<Sum, L> mma_issued_with(Tile<Sum, L> sums, const Tile<T, LL>& held, SharedAddress left,
                                  SharedAddress right, bool add, int line,
                                  const char* file = __builtin_FILE(), int at = __builtin_LINE()) {
  static_assert(L::registers == P::rows * P::columns / 2, "these are not the sums of the product");
  static_assert(LL::registers * sizeof(T) == P::rows * P::held * 16,
                "this is not a part of the left operand");
  emulator::Product product = product_in_shared<P>(sums.x, left, right, add);
  product.left_words = (const unsigned*)held.x;
  product.held = P::held;
  emulator::begin_product(product, {"the product", line, file, at});
  return sums;
}

}  // namespace tile
