// Chunks of a sweep that leave some array: what is missing is filled in, and not stored.
#include <algorithm>

#include "cpu/sweep_run.h"

namespace tile::cpu {
namespace {

// The part of [start, start + count) inside a cursor's bounds along a dimension, relative to start.
struct Part {
  int64_t low, high;
  bool all(int64_t count) const { return low == 0 && high == count; }
};
Part part(const SweepSpace::Cursor& cursor, int dim, int64_t start, int64_t count) {
  const int64_t low = std::clamp<int64_t>(cursor.first[dim] - start, 0, count);
  return {low, std::clamp<int64_t>(cursor.valid[dim] - start, low, count)};
}

}  // namespace

void SweepRun::place_at_edge(int64_t r, int64_t rows, int64_t c, int64_t cols) {
  for (size_t v = 0; v < input_count(); ++v) read(v, r, rows, c, cols);
  for (size_t v = input_count(); v < values(); ++v) {
    const Place& place = places_[v];
    bool there = place.moving != nullptr;
    if (there && direct_[v] >= 0)
      there = place.moving->within && part(*place.moving, rows_dim_, r, rows).all(rows) &&
              part(*place.moving, cols_dim_, c, cols).all(cols);
    if (there)
      at_[v] = {locate(*place.moving, r, c), place.row};
    else
      at_[v] = {base_ + place.offset,
                varies(v, rows_dim_) ? (varies(v, cols_dim_) ? line_ : 1) * element(v) : 0};
  }
}

void SweepRun::read(size_t v, int64_t r, int64_t rows, int64_t c, int64_t cols) {
  const Cursor& from = space_.inputs[v];
  const bool down = varies(v, rows_dim_), across = varies(v, cols_dim_);
  if (!down) rows = 1;
  if (!across) cols = 1;
  char* data = locate(from, r, c);
  const Part tall = down ? part(from, rows_dim_, r, rows) : Part{0, 1};
  const Part wide = across ? part(from, cols_dim_, c, cols) : Part{0, 1};
  const bool all = from.within && tall.all(rows) && wide.all(cols);
  if (all && in_place(v)) {
    at_[v] = {data, down ? from.stride[rows_dim_] : 0};
    return;
  }
  const MoveRow& move = mover(v);
  const int64_t line = (across ? line_ : 1) * element(v), row = from.stride[rows_dim_],
                column = from.stride[cols_dim_];
  at_[v] = {base_ + places_[v].offset, down ? line : 0};
  if (!all) move.fill(at_[v].data, from.pad, across ? (rows - 1) * line_ + cols : rows);
  if (!from.within || tall.low >= tall.high || wide.low >= wide.high) return;
  move.load(data + tall.low * row + wide.low * column, row, column,
            at_[v].data + tall.low * line + wide.low * element(v), line, tall.high - tall.low,
            wide.high - wide.low);
}

void SweepRun::write(size_t k, int64_t r, int64_t rows, int64_t c, int64_t cols) {
  const Cursor& to = space_.stores[k];
  auto v = static_cast<size_t>(sweep_.stores[k].value);
  char* data = locate(to, r, c);
  if (!to.within || at_[v].data == data) return;
  const Part tall = part(to, rows_dim_, r, rows), wide = part(to, cols_dim_, c, cols);
  if (tall.low >= tall.high || wide.low >= wide.high) return;
  const Chunked from = expand(v, rows, cols, base_ + expanded_offset_);
  put(to, data + tall.low * to.stride[rows_dim_] + wide.low * to.stride[cols_dim_],
      from.data + tall.low * from.row + wide.low * element(v), from.row, tall.high - tall.low,
      wide.high - wide.low);
}

}  // namespace tile::cpu
