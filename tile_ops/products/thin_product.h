// Products of few rows without tensor cores: each block reads a part of the right operand once, as fast as
// memory delivers it.
#pragma once
#include "product_epilogue.h"

namespace tile {

template <class Array, class Tile>
struct ThinOf {
  Array x, y;                  // [batch, batch, summed, m, k] and [batch, batch, summed, k, n]
  std::optional<Array> other;  // a second right operand, whose product is a factor
  EpilogueOf<Array, Tile> epilogue;
  std::optional<Tile> part_tiles;  // tiles of k that a block adds up; without them it adds up all
  int rows;                        // at least m
  int bn, bk;                      // the tile of y
  int at_once;                     // tiles that are loaded at once
};

// Block (column tile, 0, slot of PartOfBlock).
void launch_thin(Grid grid, const detail::Launched<ThinOf<Array, Tile>>& of);

}  // namespace tile
