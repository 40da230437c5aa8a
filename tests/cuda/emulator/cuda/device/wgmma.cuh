// Products of warpgroups, on the host; replaces the file of this name in csrc.
#pragma once
#include "cuda/device/matrix_descriptor.cuh"
#include "cuda/device/tensor_cores.cuh"
#include "cuda/device/tile.cuh"
#include "cuda/emulator/asynchronous.h"

#define TILE_WGMMA(...)

namespace tile {

template <class T>
double element_at(const void* at) {
  return element_of_word<T>(at, 0);
}
template <class P, class Sum>
emulator::Product product_of(Sum* sums, SharedAddress right, bool add) {
  static_assert(sizeof(typename P::Left) == sizeof(typename P::Right),
                "wgmma multiplies operands of one width");
  emulator::Product product{};
  product.columns = P::columns, product.rows = P::rows, product.steps = P::steps;
  product.element_bytes = sizeof(typename P::Left);
  product.integers = Sum(0.5) == Sum(0);
  product.right_k_major = P::right_k_major;
  product.left = element_at<typename P::Left>, product.right = element_at<typename P::Right>;
  product.right_at = matrix_descriptor((u32)(right - shared_address(shared_memory())), P::right_leading,
                                       P::right_stride, P::right_mode);
  product.right_step = P::right_step;
  product.sums = (unsigned*)sums;
  product.add = add;
  return product;
}

// The same with the left operand in shared memory.
template <class P, class Sum>
emulator::Product product_in_shared(Sum* sums, SharedAddress left, SharedAddress right, bool add) {
  emulator::Product product = product_of<P>(sums, right, add);
  product.left_k_major = P::left_k_major;
  product.left_step = P::left_step, product.left_block = P::left_block;
  product.left_at = matrix_descriptor((u32)(left - shared_address(shared_memory())), P::left_leading,
                                      P::left_stride, P::left_mode);
  return product;
}

template <class P, class Sum, class L>
TILE Tile<Sum, L> mma_issued(Tile<Sum, L> sums, SharedAddress left, SharedAddress right, bool add, int line,
                             const char* file = __builtin_FILE(), int at = __builtin_LINE()) {
  static_assert(L::registers == P::rows * P::columns / 2, "these are not the sums of the product");
  const emulator::Product product = product_in_shared<P>(sums.x, left, right, add);
  emulator::begin_product(product, {"the product", line, file, at});
  return sums;
}
template <class P, class Sum, class L, class T, class LL>
TILE Tile<Sum, L> mma_issued_from_registers(Tile<Sum, L> sums, const Tile<T, LL>& left, SharedAddress right,
                                            bool add, int line, const char* file = __builtin_FILE(),
                                            int at = __builtin_LINE()) {
  static_assert(L::registers == P::rows * P::columns / 2, "these are not the sums of the product");
  static_assert(LL::registers * sizeof(T) == P::rows * P::steps * 16,
                "this is not the product's left operand");
  emulator::Product product = product_of<P>(sums.x, right, add);
  product.left_words = (const unsigned*)left.x;
  product.held = P::steps;
  emulator::begin_product(product, {"the product", line, file, at});
  return sums;
}

template <int pending>
TILE void mma_retire(int) {
  emulator::retire_products(pending);
}
template <int pending, class Sum, class L>
TILE Tile<Sum, L> mma_awaited(Tile<Sum, L> sums, int line) {
  emulator::take_sums((unsigned*)sums.x, L::registers, pending, Sum(0.5) == Sum(0), line);
  return sums;
}

}  // namespace tile
