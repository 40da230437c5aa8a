// Kernels of attention with few queries and a long cache of keys: blocks share a head's keys, and their parts
// are put together afterwards.
//
// query and out are [batch, key heads, group * queries, head dim]: a tile holds the queries of all heads that
// share a key head. Caches are [batch, key heads, length, head dim], or pages [pages, key heads, page, head
// dim] with table [batch, pages of a sequence]. Where a tile has keys of several pages, they are [key heads,
// rows, head dim], with the pages a constant number of rows apart.
//
// The queries of a sequence with a length are its last ones, and see no key behind their own. Without lengths
// each sequence has all keys of the array, and options say which of them a query sees.
#pragma once
#include <optional>

#include "kernels.h"

namespace tile::attention {

// Pages whose keys are rows of an array of all keys.
template <class Integer>
struct PageRows {
  Integer pages, keys_apart, values_apart;  // rows from a page to the next
  int size;                                 // keys of a page
};

template <class Array, class Integer, class Number>
struct DecodeOptionsOf {
  std::optional<Array> table;
  std::optional<Integer> page_tiles;           // key tiles a page, where pages are whole tiles
  std::optional<PageRows<Integer>> page_rows;  // where they are not
  // With lengths: the keys seen before a query's own place, all without it.
  std::optional<Integer> before;
  // Without lengths: query q sees no key before q + first and none behind q + offset, and its own place, from
  // which slopes count, is q + diagonal.
  std::optional<Integer> first, offset, diagonal;
  std::optional<Number> softcap;
  std::optional<Array> slopes;  // [batch, heads]
  std::optional<Array> sinks;   // [heads]
};

// The rows of a bias: a single one that all rows of a tile share, one a query that heads share, or all.
enum class BiasRows { one, queries, all };
template <class Array>
struct DecodeBias {
  Array scores;  // [batch or 1, key heads or 1, rows, key]; bool hides, numbers are added
  BiasRows rows;
};

// Partial results of blocks, [batch, key heads, rows, splits, head dim], and the maxima that they are
// relative to, [batch, key heads, rows, splits].
template <class Array>
struct PartialResults {
  Array sums, tops, totals;
};

// Block (split, key head and row tile, batch).
template <class Array, class Tile>
struct Decode {
  Array query, key, value;
  std::optional<Array> lengths;  // the keys of each sequence
  std::optional<DecodeBias<Array>> bias;
  Array out, lse;
  std::optional<PartialResults<Array>> partials;  // without them a block has all keys, and stores out and lse
  Tile scale;
  std::optional<Tile> row_tiles;  // without it a tile holds all rows of a key head
  std::optional<Tile> queries;    // of a head, 1 without it
  DecodeOptionsOf<Array, Tile, Tile> options;
  TileSize tile;
  int part;  // of the head dim: a score is summed up in such parts
  DType operand;
};
void decode(const Decode<Array, Tile>& of);
// Puts the partial results together, so many of so many rows at once; block (rows, key head, batch).
struct CombineSize {
  int rows, splits, depth;
};
void decode_combine(const PartialResults<Array>& partials, std::optional<Array> sinks, Array out, Array lse,
                    Tile queries, CombineSize size);

}  // namespace tile::attention
