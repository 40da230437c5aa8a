// Chunks of a fused loop that cross an array's edge: missing elements are filled in and not stored.
#include "cpu/exec/fused_loop_run.h"

namespace tile::cpu {

// A single column is copied to adjacent lanes, so that it is computed as one row.
void FusedLoopRun::locate_at_edge(int64_t r, int64_t rows, int64_t c, int64_t cols) {
  const bool column = cols == 1 && rows > 1;
  for (size_t v = 0; v < input_count(); ++v) read(v, r, rows, c, cols);
  for (size_t v = input_count(); v < values(); ++v) {
    const ValueAddress& address = addresses_[v];
    bool there = address.moving != nullptr && !column;
    if (there && direct_[v] >= 0) there = part(*address.moving, r, rows, c, cols).complete;
    if (there)
      at_[v] = {locate(*address.moving, r, c), address.row};
    else
      at_[v] = {base_ + address.offset,
                varies(v, rows_dim_) ? (varies(v, cols_dim_) ? line_ : 1) * element(v) : 0};
  }
}

void FusedLoopRun::read(size_t v, int64_t r, int64_t rows, int64_t c, int64_t cols) {
  const Cursor& from = space_.inputs[v];
  const bool down = varies(v, rows_dim_), across = varies(v, cols_dim_);
  const bool strided = down && cols == 1 && rows > 1 && from.stride[rows_dim_] != element(v);
  if (!down) rows = 1;
  if (!across) cols = 1;
  char* data = locate(from, r, c);
  const Part there = part(from, r, rows, c, cols);  // a value that does not vary has no bounds
  if (there.complete && in_place(v) && !strided) {
    at_[v] = {data, down ? from.stride[rows_dim_] : 0};
    return;
  }
  const MoveRow& move = mover(v);
  const int64_t line = (across ? line_ : 1) * element(v), row = from.stride[rows_dim_],
                column = from.stride[cols_dim_];
  at_[v] = {base_ + addresses_[v].offset, down ? line : 0};
  if (!there.complete) move.fill(at_[v].data, from.pad, across ? (rows - 1) * line_ + cols : rows);
  if (there.none()) return;
  move.load(data + there.top * row + there.left * column, row, column,
            at_[v].data + there.top * line + there.left * element(v), line, there.rows(), there.cols());
}

void FusedLoopRun::write(size_t k, int64_t r, int64_t rows, int64_t c, int64_t cols) {
  const Cursor& to = space_.stores[k];
  auto v = static_cast<size_t>(fused_loop_.stores[k].value);
  char* data = locate(to, r, c);
  if (at_[v].data == data) return;
  const Part there = part(to, r, rows, c, cols);
  if (there.none()) return;
  const Chunked from = expand(v, rows, cols, base_ + expanded_offset_);
  put(to, data + there.top * to.stride[rows_dim_] + there.left * to.stride[cols_dim_],
      from.data + there.top * from.row + there.left * element(v), from.row, there.rows(), there.cols());
}

}  // namespace tile::cpu
