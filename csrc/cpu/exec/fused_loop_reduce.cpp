// The reductions at the end of a fused loop.
#include <cstring>

#include "cpu/exec/fused_loop_run.h"

namespace tile::cpu {

// Rows and columns of a value (or of a product's two factors) to accumulate, each `weight` times.
struct FusedLoopRun::WeightedPart {
  Chunked from, factor;
  int64_t rows, cols;
  char* to;
  int64_t weight;
};

void FusedLoopRun::begin(size_t k) const {
  const auto& into = space_.reductions[k];
  fused_loop_.reductions[k].row->identity(into.cursor.data, into.count);
}

void FusedLoopRun::accumulate(size_t k, const int64_t* outer, int64_t r, int64_t rows, int64_t c,
                              int64_t cols) {
  const auto& into = space_.reductions[k];
  const FusedLoopReduction& reduction = fused_loop_.reductions[k];
  // Along an axis where the value repeats, one iteration represents all and gets their weight.
  int64_t weight = 1;
  for (int d = 0; d < rows_dim_ && !no_repeats_; ++d) {
    if (!space_.reduces_along(reduction, d) && outer[d] > 0) return;
    if (outer[d] == into.last[d]) weight *= into.weight[d];
  }
  const bool down = space_.reduces_along(reduction, rows_dim_),
             across = space_.reduces_along(reduction, cols_dim_);
  if ((!down && r > 0) || (!across && c > 0)) return;
  if (!down) rows = 1;
  if (!across) cols = 1;
  char* const buffer = base_ + expanded_offset_ + rows_ * cols_ * 8;
  auto value = static_cast<size_t>(reduction.value);
  WeightedPart all{at_[value], {}, rows, cols, locate(into.cursor, r, c), weight};
  const int64_t step = element(value);  // along the columns, for both factors
  if (reduction.factor >= 0) {
    auto factor = static_cast<size_t>(reduction.factor);
    // At most one of them repeats along the columns.
    all.from = expand(value, rows, cols, buffer);
    all.factor = expand(factor, rows, cols, buffer);
  }
  // The last row and column may have a higher weight than the others, which gives up to four parts.
  const int64_t heavy_rows = into.weight[rows_dim_] > 1 && r + rows > into.last[rows_dim_] ? 1 : 0;
  const int64_t heavy_cols = into.weight[cols_dim_] > 1 && c + cols > into.last[cols_dim_] ? 1 : 0;
  if (heavy_rows + heavy_cols == 0) return add(k, all);
  for (int lower = 0; lower < 2; ++lower)
    for (int right = 0; right < 2; ++right) {
      const int64_t r0 = lower ? rows - heavy_rows : 0, c0 = right ? cols - heavy_cols : 0;
      WeightedPart part = all;
      part.rows = lower ? heavy_rows : rows - heavy_rows;
      part.cols = right ? heavy_cols : cols - heavy_cols;
      if (part.rows <= 0 || part.cols <= 0) continue;
      part.from.data += r0 * part.from.row + c0 * step;
      if (part.factor.data) part.factor.data += r0 * part.factor.row + c0 * step;
      part.to += r0 * into.cursor.stride[rows_dim_] + c0 * into.cursor.stride[cols_dim_];
      part.weight *= (lower ? into.weight[rows_dim_] : 1) * (right ? into.weight[cols_dim_] : 1);
      add(k, part);
    }
}

// Returns true if the part is a column whose rows are adjacent in memory, as are its accumulators: it is
// then processed as a row.
bool FusedLoopRun::transposes(size_t k, const WeightedPart& part) const {
  const FusedLoopReduction& reduction = fused_loop_.reductions[k];
  const auto adjacent = [&](const Chunked& from, int value) {
    return !from.data || from.row == element(static_cast<size_t>(value));
  };
  return part.cols == 1 && part.rows > 1 && adjacent(part.from, reduction.value) &&
         adjacent(part.factor, reduction.factor) &&
         space_.reductions[k].cursor.stride[rows_dim_] == element(static_cast<size_t>(reduction.value));
}

void FusedLoopRun::add(size_t k, WeightedPart part) const {
  const auto& into = space_.reductions[k];
  const ReduceRow& row = *fused_loop_.reductions[k].row;
  const bool transposed = transposes(k, part), columns = into.reduced[cols_dim_] && !transposed,
             product = part.factor.data != nullptr;
  if (transposed) std::swap(part.rows, part.cols);
  const ChunkFunction by_column = product ? row.product_columns : row.columns,
                      by_row = product ? row.product_rows : row.rows;
  const int64_t to_row = into.cursor.stride[rows_dim_];
  Chunk chunk{part.rows,
              part.cols,
              part.to,
              to_row,
              {part.from.data, part.factor.data},
              {part.from.row, part.factor.row}};
  if (part.weight == 1) return (columns ? by_column : by_row)(chunk);
  // Accumulates into identities, applies the weight to them, then combines them with the accumulators.
  char* const buffer = base_ + expanded_offset_;
  const int64_t lane = lane_bytes(fused_loop_.lanes[static_cast<size_t>(fused_loop_.reductions[k].value)]);
  chunk.out = buffer;
  if (columns) {
    row.identity(buffer, part.rows);
    chunk.out_row = lane;
    by_column(chunk);
    row.weigh(buffer, part.rows, part.weight);
    row.rows({part.rows, 1, part.to, to_row, {buffer}, {lane}});
    return;
  }
  // Process one row at a time, so that each accumulator is updated once per row.
  chunk.rows = 1;
  for (int64_t i = 0; i < part.rows; ++i) {
    row.identity(buffer, part.cols);
    by_row(chunk);
    row.weigh(buffer, part.cols, part.weight);
    row.rows({1, part.cols, part.to + i * to_row, 0, {buffer}, {0}});
    chunk.in[0] += part.from.row;
    if (product) chunk.in[1] += part.factor.row;
  }
}

void FusedLoopRun::finish(Frame& frame) const {
  for (size_t k = 0; k < fused_loop_.reductions.size(); ++k) {
    const FusedLoopReduction& reduction = fused_loop_.reductions[k];
    const auto& into = space_.reductions[k];
    if (ChunkFunction round = move_row(reduction.dtype).round)
      round({1, into.count, into.cursor.data, 0, {into.cursor.data}, {0}});
    if (reduction.scalar >= 0)
      std::memcpy(&frame.scalars[static_cast<size_t>(reduction.scalar)], into.cursor.data,
                  static_cast<size_t>(lane_bytes(lane_of(reduction.dtype))));
    else
      frame.tiles[static_cast<size_t>(reduction.tile)] = into.tile;
  }
  for (size_t k = 0; k < fused_loop_.outputs.size(); ++k)
    frame.tiles[static_cast<size_t>(fused_loop_.outputs[k].tile)] = space_.output_tiles[k];
}

}  // namespace tile::cpu
