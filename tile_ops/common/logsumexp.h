// log(sum(exp(x))) of rows that are looped over once, tile by tile.
#pragma once
#include "tile/op.h"

namespace tile {

// top + log(total), as far as the loop over a row has come.
struct LogSumExp {
  Tile top, total;
};

// Returns the shift before exp(): 0 if top is -inf, since nothing is summed yet.
inline Tile finite_shift(const Tile& top) { return where(top == -inf, 0, top); }

// Computes the logsumexp of each row over tiles load(k), k < steps, of rows x columns (columns x rows along
// axis 0), padded with -inf. `exponential` is exp or an approximation. group: this many neighbours, in one
// thread of a GPU, keep a separate maximum and sum until the end; 0: a row of the tile keeps one. Returns one
// value per row.
template <class Load, class Exponential>
LogSumExp looped_logsumexp(const Tile& steps, int rows, int columns, int axis, int group, DType compute,
                           const Load& load, const Exponential& exponential) {
  const auto shape = [&](std::initializer_list<int> of_columns) {
    Shape shape(of_columns.begin(), of_columns.end());
    shape.insert(axis ? shape.begin() : shape.end(), rows);
    return shape;
  };
  const int along = group ? axis + 1 : axis;
  const Shape parts = shape({group ? columns / group : 1});
  const auto spread = [&](const Tile& part) { return group ? part.expand_dims(along) : part; };
  Tile tops = full(parts, -inf, compute), totals = zeros(parts, compute);
  for (Tile k : range(steps)) {
    Tile v = load(k);
    if (group) v = v.reshape(shape({columns / group, group}));
    Tile top = detach(max(tops, v.max(along, !group))), shift = finite_shift(top);
    totals = totals * exponential(tops - shift) + exponential(v - spread(shift)).sum(along, !group);
    tops = top;
  }
  if (!group) return {tops, totals};
  Tile top = detach(tops.max(axis, true));
  return {top, (totals * exponential(tops - finite_shift(top))).sum(axis, true)};
}

}  // namespace tile
