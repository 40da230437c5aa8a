// Fused loops as machine code: decides whether the memory layouts allow it, and runs the code on chunks.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/exec/fused_loop_run.h"

namespace tile::cpu {
namespace {

constexpr int64_t least_columns = 8;  // with fewer, each row's overhead dominates
constexpr int64_t long_row = 4096;    // bytes: the hardware prefetcher rarely passes its end

}  // namespace

void FusedLoopRun::assemble() {
  code_ = streaming_ = nullptr;
  vectors_ = jit::enabled();
  if (!vectors_ || edge_ < least_columns) return;
  static thread_local jit::FusedLoopForm form;  // static: reuses its memory
  if (!describe(form)) return;
  code_ = node_.codes.find(fused_loop_, form, *vectors_);
  if (!code_) return;
  any_columns_ = form.any_columns(*vectors_);
  bool streams = false;
  for (size_t k = 0; k < fused_loop_.stores.size(); ++k)
    streams |= form.stores[k].streams = space_.stores[k].streams;
  if (streams) streaming_ = node_.codes.find(fused_loop_, form, *vectors_);
}

// Selects the tiles whose memory layout matches the fused loop's rows and columns.
void FusedLoopRun::find_prefetch(const Frame& frame) {
  constexpr int64_t most_bytes = 256 * 1024;  // fits in a second-level cache until it is read
  prefetch_count_ = 0;
  const size_t arrays =
      input_count() + fused_loop_.outputs.size() + fused_loop_.stores.size() + fused_loop_.reductions.size();
  for (const FusedLoopPrefetch& each : fused_loop_.prefetch) {
    const TileRef& tile = frame.tiles[static_cast<size_t>(each.tile)];
    const auto row = row_bytes(tile);
    const int64_t distance = tile[each.axis].extent * tile[each.axis].stride;
    if (!row || distance <= 0 || space_.extent[rows_dim_] * *row > most_bytes) continue;
    if (arrays + static_cast<size_t>(prefetch_count_) == jit::most_arrays) break;
    prefetch_[prefetch_count_++] = {each.tile, tile.dtype, distance, *row, nullptr};
  }
}

// Only what becomes float32 lanes is converted by the interpreter.
bool FusedLoopRun::transposed(size_t input) const {
  const Cursor& from = space_.inputs[input];
  const int64_t bytes = from.lanes ? element(input) : info(from.dtype).bytes;
  return varies(input, cols_dim_) && from.stride[cols_dim_] != bytes && fused_loop_.lanes[input] == Lane::f32;
}

// Returns the bytes from row to row of the fused loop; none if columns are not adjacent or rows not evenly
// spaced. Only an axis's elements inside the array count; padding is represented by at most one extra element
// in the fused loop.
std::optional<int64_t> FusedLoopRun::row_bytes(const TileRef& tile) const {
  if (rows_dim_ != 0) return {};
  const int64_t rows = row_edge_, bytes = info(tile.dtype).bytes;
  int64_t adjacent = bytes, row = 0;
  for (int axis = tile.rank; axis-- > 0;) {
    const int64_t extent = std::min(tile[axis].extent, tile[axis].valid);
    if (extent == 1) continue;
    if (row == 0 && tile[axis].stride == adjacent) {
      adjacent *= extent;
    } else {
      if (row != 0 || extent != rows) return {};
      row = tile[axis].stride;
    }
  }
  const int64_t line = edge_ * bytes;
  if (row == 0 && adjacent == rows * line) return line;
  return adjacent == line ? std::optional(row) : std::nullopt;
}

bool FusedLoopRun::describe(jit::FusedLoopForm& form) const {
  for (auto* arrays : {&form.inputs, &form.outputs, &form.stores, &form.reductions, &form.prefetch})
    arrays->clear();
  form.long_rows = false;
  const auto adjacent = [&](const Cursor& cursor, int64_t bytes) {
    return cursor.stride[cols_dim_] == bytes;
  };
  for (size_t v = 0; v < input_count(); ++v) {
    const Cursor& from = space_.inputs[v];
    const bool columns = varies(v, cols_dim_);
    const DType dtype =
        from.lanes && from.dtype != DType::boolean ? dtype_of(fused_loop_.lanes[v]) : from.dtype;
    const int64_t bytes = info(dtype).bytes, row = edge_ * bytes;
    if (transposed(v)) {
      form.inputs.push_back({DType::f32, true, false});
      continue;
    }
    if (columns && !adjacent(from, bytes)) return false;
    const bool goes_on = row >= long_row || (varies(v, rows_dim_) && from.stride[rows_dim_] == row);
    form.inputs.push_back({dtype, columns, columns && fused_loop_.read_once[v] && goes_on});
  }
  for (size_t k = 0; k < fused_loop_.outputs.size(); ++k) {
    const auto value = static_cast<size_t>(fused_loop_.outputs[k].value);
    const bool columns = varies(value, cols_dim_),
               kept = fused_loop_.outputs[k].dtype == DType::boolean || fused_loop_.outputs[k].elements;
    const DType dtype = kept ? fused_loop_.outputs[k].dtype : dtype_of(fused_loop_.lanes[value]);
    if (columns && !adjacent(space_.outputs[k], info(dtype).bytes)) return false;
    form.outputs.push_back({dtype, columns, false});
  }
  for (size_t k = 0; k < fused_loop_.stores.size(); ++k) {
    const Cursor& to = space_.stores[k];
    if (!adjacent(to, info(to.dtype).bytes)) return false;
    form.stores.push_back({to.dtype, true, false});
  }
  for (size_t k = 0; k < fused_loop_.reductions.size(); ++k) {
    const auto& into = space_.reductions[k];
    for (int d = 0; d < space_.dims; ++d)  // axes that only repeat are weighted in bulk
      if (!space_.reduces_along(fused_loop_.reductions[k], d) && (space_.extent[d] > 1 || into.weight[d] > 1))
        return false;
    const bool columns = !into.reduced[cols_dim_];
    if (columns && !adjacent(into.cursor, 4)) return false;
    form.reductions.push_back({DType::f32, columns, false});
    form.long_rows |= !columns && edge_ > jit::most_summed;
  }
  for (int i = 0; i < prefetch_count_; ++i) form.prefetch.push_back({prefetch_[i].dtype, true, false});
  return true;
}

// Sums over rows are accumulated per chunk in a separate line, so that each accumulator is a sum of partial
// sums.
bool FusedLoopRun::lines_apart(size_t k) const {
  const auto& into = space_.reductions[k];
  return !into.reduced[cols_dim_] && into.cursor.stride[rows_dim_] == 0;
}

// Runs the code on columns from c on and returns how many it processed: none if an array's edge is inside the
// chunk or an element has a weight above one. A participant that is outside its array in the whole chunk
// reads from, or writes to, a buffer line instead.
int64_t FusedLoopRun::run_code(const int64_t* outer, int64_t r, int64_t rows, int64_t c, int64_t cols) {
  if (!any_columns_) cols = cols / 8 * 8;
  if (cols == 0 || weighs(outer, r + rows, c + cols)) return 0;
  jit::FusedLoopArguments arguments;
  arguments.rows = rows;
  arguments.cols = cols;
  auto* next = arguments.arrays;
  for (size_t v = 0; v < input_count(); ++v, ++next) {
    const Cursor& from = space_.inputs[v];
    *next = {locate(from, r, c), varies(v, rows_dim_) ? from.stride[rows_dim_] : 0};
    if (!transposed(v) || !part(from, r, rows, c, cols).complete) continue;
    char* const buffer = base_ + addresses_[v].offset;
    mover(v).load(next->at, from.stride[rows_dim_], from.stride[cols_dim_], buffer, addresses_[v].row,
                  varies(v, rows_dim_) ? rows : 1, cols);
    *next = {buffer, addresses_[v].row};
  }
  for (int i = 0; i < bounded_count_; ++i) {
    const auto v = static_cast<size_t>(bounded_[i]);
    const Cursor& from = space_.inputs[v];
    const Part there = part(from, r, rows, c, cols);
    if (there.complete) continue;
    const bool lanes = from.lanes ? fused_loop_.lanes[v] == Lane::f32 : from.dtype == DType::f32;
    if (!there.none() || (!lanes && (from.pad != 0 || std::signbit(from.pad)))) return 0;
    arguments.arrays[v] = {line(v), 0};
    if (lanes)
      std::fill_n(reinterpret_cast<float*>(line(v)), varies(v, cols_dim_) ? cols : 1,
                  static_cast<float>(from.pad));
    else
      std::memset(line(v), 0, line_bytes());
  }
  for (size_t k = 0; k < fused_loop_.outputs.size(); ++k, ++next)
    *next = {locate(space_.outputs[k], r, c), space_.outputs[k].stride[rows_dim_]};
  bool aligned = streaming_ != nullptr;
  auto* const stores = next;
  for (size_t k = 0; k < fused_loop_.stores.size(); ++k, ++next) {
    const Cursor& to = space_.stores[k];
    *next = {locate(to, r, c), to.stride[rows_dim_]};
    aligned =
        aligned && (reinterpret_cast<uintptr_t>(next->at) | static_cast<uintptr_t>(next->row)) % 32 == 0;
  }
  for (int i = 0; i < bounded_store_count_; ++i) {
    const auto k = static_cast<size_t>(bounded_stores_[i]);
    const Part there = part(space_.stores[k], r, rows, c, cols);
    if (there.complete) continue;
    if (!there.none()) return 0;
    stores[k] = {line(input_count() + fused_loop_.reductions.size()), 0};
    aligned = false;
  }
  for (size_t k = 0; k < fused_loop_.reductions.size(); ++k, ++next) {
    const Cursor& to = space_.reductions[k].cursor;
    *next = {locate(to, r, c), to.stride[rows_dim_]};
    if (!lines_apart(k)) continue;
    next->at = line(input_count() + k);
    fused_loop_.reductions[k].row->identity(next->at, cols);
  }
  for (int i = 0; i < prefetch_count_; ++i, ++next)
    *next = {prefetch_[i].at + r * prefetch_[i].row + c * info(prefetch_[i].dtype).bytes, prefetch_[i].row};
  (aligned ? streaming_ : code_)(&arguments);
  for (size_t k = 0; k < fused_loop_.reductions.size(); ++k)
    if (lines_apart(k))
      fused_loop_.reductions[k].row->rows(
          {1, cols, locate(space_.reductions[k].cursor, r, c), 0, {line(input_count() + k)}, {0}});
  return cols;
}

}  // namespace tile::cpu
