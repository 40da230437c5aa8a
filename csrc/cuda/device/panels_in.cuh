// Tiles that a producer has copied to the stages of a ring: each warp reads its elements in the layout of an
// accumulator. From sm_90 on.
//
// P describes a tile: blocks of 64 rows of a group, or by_columns its columns; 16-byte chunks of a panel's
// row and the bytes of a panel, which has the rows of all groups. across: rows in memory are columns of the
// tile.
#pragma once
#include "cuda/device/rings.cuh"
#include "cuda/device/tensor_cores.cuh"
#include "cuda/device/tile.cuh"
#include "cuda/device/warps.cuh"

namespace tile {

// Returns where a byte of a row in memory lies.
template <class P>
TILE SharedAddress byte_address(SharedAddress stage, u32 row, u32 byte) {
  constexpr u32 pitch = P::chunks * 16;
  const u32 chunk = byte % pitch / 16, exchange = row / (8 / P::chunks) % P::chunks;
  return stage + byte / pitch * P::panel_bytes + row * pitch + (chunk ^ exchange) * 16 + byte % 16;
}
// An element of the tile, at a row and a column.
template <class P>
TILE SharedAddress element_address(SharedAddress stage, u32 row, u32 column, u32 bytes) {
  return P::across ? byte_address<P>(stage, column, row * bytes)
                   : byte_address<P>(stage, row, column * bytes);
}

template <class P, class R, class T, class L>
TILE Tile<T, L> read_stage(const Ring& ring, SharedAddress memory, int group, int line) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "elements have 16 or 32 bits");
  const SharedAddress stage = stage_address<R>(ring, memory);
  const u32 first_row = (P::by_columns ? 0 : (u32)(group - 1) * P::rows * 64) + (u32)warp() * 16,
            first_column = P::by_columns ? (u32)(group - 1) * P::columns : 0, of_warp = (u32)lane();
  Tile<T, L> tile;
  TILE_UNROLL
  for (int block = 0; block < P::rows; ++block) {
    const u32 row = first_row + block * 64;
    T* to = &tile.x[block * P::columns / 2];
    TILE_UNROLL
    for (int at = 0; at < P::columns; at += 16) {
      const u32 column = first_column + at;
      if constexpr (sizeof(T) == 2) {
        // Matrices of 8 x 8: two below each other, then the two beside them.
        const u32 below = P::across ? of_warp / 8 % 2 * 8 : of_warp % 16,
                  beside = P::across ? of_warp / 16 * 8 + of_warp % 8 : of_warp / 16 * 8;
        u32 words[4];
        load_matrices<P::across>(words, element_address<P>(stage, row + below, column + beside, 2), line);
        TILE_UNROLL
        for (int word = 0; word < 4; ++word) memcpy(&to[at / 2 + word * 2], &words[word], 4);
      } else {
        TILE_UNROLL
        for (int word = 0; word < 4; ++word) {
          const u32 below = row + word % 2 * 8 + of_warp / 4,
                    beside = column + word / 2 * 8 + of_warp % 4 * 2;
          if constexpr (P::across) {
            TILE_UNROLL
            for (int i = 0; i < 2; ++i) {
              u32 element;
              load_word(element, element_address<P>(stage, below, beside + i, 4), line);
              memcpy(&to[at / 2 + word * 2 + i], &element, 4);
            }
          } else {
            f64 pair;
            load_word(pair, element_address<P>(stage, below, beside, 4), line);
            memcpy(&to[at / 2 + word * 2], &pair, 8);
          }
        }
      }
    }
  }
  return tile;
}

}  // namespace tile
