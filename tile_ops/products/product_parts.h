// The work of a block of a product. Its inner extent may be divided into parts: each part has blocks of its
// own, which store their sums, and another kernel adds these up in order. On a GPU only.
#pragma once
#include "product_epilogue.h"

namespace tile {

// The tile of the result that a block computes, of so many rows and columns of tiles. With together > 1, axis
// 0 of the grid counts all tiles: blocks that run at once then share rows and columns in the cache,
// `together` rows of tiles at a time. In pairs, axis 1 has two blocks: those of neighbouring rows of tiles,
// of which the second may lie outside of the result.
struct TileOfBlock {
  Tile i, j;
};
TileOfBlock tile_of_block(const Tile& rows, const Tile& columns, int together, bool paired = false);

// The part of the inner extent that a block adds up. Axis 2 of a grid counts slots: batches, and with parts
// all batches of the first part, then those of the second.
struct PartOfBlock {
  Tile slot, b0, b1;               // the block stores at [slot, b1]
  Tile low;                        // its first tile of the inner extent
  std::optional<Tile> part_tiles;  // how many a part has; without parts a block adds up all

  // The end of its tiles, of so many.
  Tile high(const Tile& tiles) const { return part_tiles ? min(low + *part_tiles, tiles) : tiles; }
};
// x, out: the left operand and what blocks store; batched: there may be more than one batch.
PartOfBlock part_of_block(const Array& x, const Array& out, bool batched,
                          const std::optional<Tile>& part_tiles);

// Adds the parts [batch, batch, parts, m, n] of products, and ends as they would have.
template <class Array, class Tile>
struct PartsOf {
  Array parts;
  EpilogueOf<Array, Tile> epilogue;
  int at_once;  // parts that are loaded at once
  int bm, bn;   // the tile
};
// Memory on the device of `like` for the sums of so many parts of products of a dtype, [parts * batch, batch,
// m, n].
at::Tensor sums_of_parts(const at::Tensor& like, at::ScalarType type, int64_t parts,
                         const std::array<int64_t, 2>& batches, int64_t m, int64_t n);
void add_parts(const at::Tensor& sums, int64_t parts, const std::array<int64_t, 2>& batches,
               const detail::Launched<EpilogueOf<Array, Tile>>& epilogue);

}  // namespace tile
