// Kernels of attention with few queries and a long cache of keys: blocks share a head's keys, and their parts
// are put together afterwards.
//
// query and out are [batch, key heads, group * queries, head dim]: a tile holds the queries of all heads that
// share a key head. Caches are [batch, key heads, length, head dim], or pages [pages, key heads, page, head
// dim] with table [batch, pages of a sequence].
#pragma once
#include <optional>
#include <tuple>

#include "kernels.h"

namespace tile::attention {

template <class Array, class Integer, class Number>
struct DecodeOptionsOf {
  std::optional<Array> table;
  std::optional<Integer> page_tiles;  // key tiles a page, there with table
  std::optional<Integer> before;      // keys seen before a query's own place, all without it
  std::optional<Number> softcap;
  std::optional<Array> slopes;  // [batch, heads]
  std::optional<Array> sinks;   // [heads]
  auto all() const { return std::tuple(table, page_tiles, before, softcap, slopes, sinks); }
};
struct DecodeOptions : DecodeOptionsOf<Array, Tile, Tile> {
  using Parameters = decltype(DecodeOptionsOf<Array, Tile, Tile>().all());
  DecodeOptions(const Parameters& all)
      : DecodeOptionsOf(std::apply([](const auto&... each) { return DecodeOptionsOf{each...}; }, all)) {}
};

// Block (split, key head and row tile, batch). lengths: the keys of each sequence, of which the last are the
// queries' own. queries: of a head. With parts, [splits, batch, key heads, rows, head dim], a block stores
// its sums there, and in tops and totals, [splits, batch, key heads, rows], what they are relative to; else
// out and lse.
void decode(Array query, Array key, Array value, Array lengths, Array out, Array lse,
            std::optional<Array> parts, std::optional<Array> tops, std::optional<Array> totals, Tile scale,
            Tile queries, DecodeOptions::Parameters options, int rows, int cols, int depth, int part,
            DType operand);
// Puts the parts together; block (row tile, key head, batch).
void decode_combine(Array parts, Array tops, Array totals, std::optional<Array> sinks, Array out, Array lse,
                    Tile queries, int rows, int depth);

}  // namespace tile::attention
