// The end of every kernel that makes products: what is computed of a tile of the result before it is stored.
#pragma once
#include "gemm.h"

namespace tile {

// Arrays are [batch, batch, m, n]; a bias that is the same for all rows has one row.
template <class Array, class Tile>
struct EpilogueOf {
  std::optional<Array> bias, residual, pre, other_pre;
  Array out;
  Tile alpha;
  Activation activation;
  bool scaled, accumulate;                              // by alpha; onto the contents of out
  std::optional<ExpressionOf<Array, Tile>> expression;  // in the place of all that follows pre
};

// A tile of the result: batch (b0, b1), rows i, columns j.
struct TileIndex {
  const Tile &b0, &b1, &i, &j;
};

// Computes the text of an epilogue, whose first result goes to `out` and is returned; the others are added to
// `more`.
Tile expressed(const ExpressionOf<Array, Tile>& of, const Array& out, const Tile& acc,
               const std::optional<Tile>& factor, const TileIndex& at, std::vector<Tile>& more);

// Stores tile `at` of a product `acc`, or of one times `factor` after its activation, or what an expression
// makes of both.
void finish(const EpilogueOf<Array, Tile>& of, Tile acc, const std::optional<Tile>& factor,
            const TileIndex& at);

}  // namespace tile
