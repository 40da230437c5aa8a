// Products of warpgroups (wgmma): asynchronous, with operands in shared memory; sm_90 only. The emulator
// replaces this file.
//
// A product's struct P of the generated source has these members:
//   columns, rows, steps          N; blocks of 64 rows that a group multiplies; steps of 32 bytes along k
//   Left, Right                   the operands' types
//   left_k_major, left_leading, left_stride, left_mode    how the left operand lies in memory; right_...
//   left_step(k), right_step(k)   where step k begins, in bytes; left_block(i): where block i begins
//   multiply(sums, left, right, add)    starts the product, a batch; cuda/async/wgmma_text.h writes it. Where
//                                       registers hold steps of the left operand, they come before `left`
// A thread has these sums, for i < rows, j < N / 8 and h, c < 2:
//   x[(i * N / 8 + j) * 4 + h * 2 + c]: row 64 * i + 16 * warp() + lane() / 4 + 8 * h,
//                                       column 8 * j + lane() % 4 * 2 + c
#pragma once
#include "cuda/device/matrix_descriptor.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// The text of a struct has the statements of its product in this macro, which an emulator leaves out.
#define TILE_WGMMA(...) __VA_ARGS__

// The compiler must not move accesses of these registers across. NVRTC's time grows with the number of
// statements, so one has many operands.
#define TILE_FOUR(PIN, I) PIN(x[I]), PIN(x[I + 1]), PIN(x[I + 2]), PIN(x[I + 3])
#define TILE_SIXTEEN(PIN, I) \
  TILE_FOUR(PIN, I), TILE_FOUR(PIN, I + 4), TILE_FOUR(PIN, I + 8), TILE_FOUR(PIN, I + 12)
#define TILE_PIN(TYPE, KIND)                                                                             \
  template <int registers>                                                                               \
  TILE void pin(TYPE* x) {                                                                               \
    if constexpr (registers >= 32)                                                                       \
      asm volatile("" : TILE_SIXTEEN(KIND, 0), TILE_SIXTEEN(KIND, 16)::"memory");                        \
    else                                                                                                 \
      asm volatile("" : TILE_FOUR(KIND, 0)::"memory");                                                   \
    constexpr int pinned = registers >= 32 ? 32 : 4;                                                     \
    if constexpr (registers > pinned) pin<registers - pinned>(x + pinned);                               \
  }
#define TILE_PIN_F32(X) "+f"(X)
#define TILE_PIN_WORD(X) "+r"(X)
TILE_PIN(f32, TILE_PIN_F32)
TILE_PIN(i32, TILE_PIN_WORD)
TILE_PIN(u32, TILE_PIN_WORD)

// Starts a batch: sums + left * right, or left * right if not `add`. Until mma_awaited() the result may only
// be passed to the next product.
template <class P, class Sum, class L>
TILE Tile<Sum, L> mma_issued(Tile<Sum, L> sums, SharedAddress left, SharedAddress right, bool add, int) {
  static_assert(L::registers == P::rows * P::columns / 2, "these are not the sums of the product");
  P::multiply(sums.x, matrix_descriptor(left, P::left_leading, P::left_stride, P::left_mode),
              matrix_descriptor(right, P::right_leading, P::right_stride, P::right_mode), (u32)add);
  return sums;
}
// The same with the left operand in registers: 4 words for each block of rows and step of k. Two are those of
// rows r = lane() / 4 and r + 8 at byte lane() % 4 * 4, and two those of both rows 16 bytes further.
template <class P, class Sum, class L, class T, class LL>
TILE Tile<Sum, L> mma_issued_from_registers(Tile<Sum, L> sums, const Tile<T, LL>& left, SharedAddress right,
                                            bool add, int) {
  constexpr int words = P::rows * P::steps * 4;
  static_assert(L::registers == P::rows * P::columns / 2, "these are not the sums of the product");
  static_assert(LL::registers * sizeof(T) == words * 4, "this is not the left operand of the product");
  u32 own[words];
  TILE_UNROLL
  for (int i = 0; i < words; ++i) memcpy(&own[i], &left.x[i * (4 / (int)sizeof(T))], 4);
  P::multiply(sums.x, own, matrix_descriptor(right, P::right_leading, P::right_stride, P::right_mode),
              (u32)add);
  return sums;
}

// Returns when at most `pending` batches are in flight: the operands of older ones have been read.
template <int pending>
TILE void mma_retire(int) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// The same; the result may be read.
template <int pending, class Sum, class L>
TILE Tile<Sum, L> mma_awaited(Tile<Sum, L> sums, int line) {
  mma_retire<pending>(line);
  pin<L::registers>(sums.x);
  return sums;
}

}  // namespace tile
