// The forward of few queries on a CPU: its kernel and launch. A block has the rows of several key heads,
// because an op of a few rows takes longer to begin than to compute.
#pragma once
#include "bias.h"

namespace tile::attention {

// Arrays are [batch, key heads, group * queries, ...]: a tile has the queries of all heads that share a key
// head. bias is [batch or 1, key heads or 1, group * queries, key]. Block (tile of key heads, batch).
template <class Array, class Tile>
struct FewRows {
  Inputs<Array> in;
  Array out, lse;  // as of Forward
  std::optional<Array> top, weight, residual;
  RuleOf<Array, Tile, Tile> rule;
  Tile queries;  // of a head
  int heads;
  TileSize tile;
  DType operand;
  bool negative;  // scale is
  bool own_bias;  // each key head has its own
  // [group * queries], 0, 1, ...: ops leave out rows of a tile that are not in memory, but none of arange.
  Array numbers;
};
void forward_few_rows(const FewRows<Array, Tile>& of);

// Computes the call and returns true if a tile holds all rows of a key head, and no option needs tiles of a
// single head. bias: as whole_bias() returns it.
bool run_few_rows(const Operands& of, const OptionalTensor& bias, const Problem& p, const Results& results);

}  // namespace tile::attention
