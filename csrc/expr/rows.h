// Treats arrays of one shape as [slices, rows, columns], so that softmax and the norms handle tensors of any
// rank and strides.
#pragma once
#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "tile/op.h"

namespace tile {

// The largest extent that a kernel takes. Longer axes are split into chunks of this extent.
inline constexpr int64_t max_extent = std::numeric_limits<int32_t>::max();
inline constexpr int64_t extent_of_chunks = int64_t{1} << 30;

// Returns the part of the array with `size` indices of an axis, starting at `from`.
ArrayArgument narrowed(ArrayArgument array, int axis, int64_t from, int64_t size);

class Rows {
 public:
  static constexpr size_t most_arrays = 16;

  // Axis i is part of the columns if bit i of `reduced` is set. The first array has the full shape and
  // determines the order of the rows; an axis of extent 1 in another array is broadcast. All arrays have one
  // rank.
  Rows(c10::ArrayRef<ArrayArgument> arrays, uint32_t reduced);

  bool empty() const { return empty_; }
  // False if the columns are not one axis in every array; the caller then makes them contiguous.
  bool flat() const { return flat_; }
  bool on_gpu() const { return views_[0].device == DeviceKind::cuda; }
  // True if the stride between rows is smaller than between columns.
  bool transposed() const { return transposed_; }
  int64_t slices() const { return view(0).sizes[0]; }
  int64_t rows() const { return view(0).sizes[1]; }
  int64_t columns() const { return view(0).sizes[2]; }
  // Number of calls that each() makes.
  int64_t count() const { return count_; }

  // Calls f(i) for each index of the leading axes that a view of rank 3 cannot hold; view(k) is then part i
  // of array k.
  template <class F>
  void each(F f) {
    for (int64_t i = 0; i < count_; ++i) {
      seek(i);
      f(i);
    }
  }
  const ArrayArgument& view(size_t k) const { return views_[k]; }

 private:
  static constexpr size_t most = most_arrays;
  struct Axis {
    int64_t extent;
    std::array<int64_t, most> strides;
  };
  // Axes of a tensor, on the stack because a Rows is made in every call.
  struct Axes {
    std::array<Axis, max_array_rank> all;
    size_t count = 0;
    void insert(const Axis& axis, size_t at);
  };
  void merge(Axes& axes, int64_t most_extent) const;
  void seek(int64_t index);

  c10::SmallVector<ArrayArgument, 4> views_;
  std::array<void*, most> data_;
  std::vector<Axis> leading_;
  int64_t count_ = 1;
  bool empty_ = false, flat_ = true, transposed_ = false;
};

// Merges the axes of all arrays from `first` on into one. Returns false if they are not one axis in each
// array.
bool merge_axes(std::vector<ArrayArgument>& arrays, int first);

// How rows fit their tiles. looped: rows are longer than a tile, so the kernel loops over tiles. inside: the
// tile may be wider than the row. exact: the tile has the row's width, so no column needs a mask.
enum class RowFit { looped, inside, exact };
// The tile of a row operator. A small set of shapes bounds the number of kernels; extents smaller than the
// tile's cost little.
struct RowTile {
  int rows, columns;
  RowFit fit;
  bool holds_row() const { return fit != RowFit::looped; }
};
RowTile row_tile(const Rows& rows);
// Returns the same tile, or one of fewer rows if a CPU's threads would otherwise have too few tiles. Only for
// results that do not depend on how rows are grouped: a sum over rows would change with the number of
// threads.
RowTile row_tile_for_threads(const Rows& rows);

// The grid, and how many row tiles of a slice each block computes. On a CPU this balances the work per block
// against the number of blocks; on a GPU it is one tile, and std::nullopt says so, so that the kernel needs
// no loop.
struct RowBlocks {
  Grid grid;
  std::optional<int> tiles;
};
RowBlocks row_blocks(const Rows& rows, RowTile tile);

// Iterates over the row tiles of this block: for (Tile row : block_rows(x, tiles, rows)).
inline Range block_rows(const Array& array, const Tile& tiles, int rows, const Tile& block = bid(0)) {
  Tile low = block * tiles;
  return range(low, min(low + tiles, cdiv(array.dim(1), rows)));
}
// Returns true if half the usual threads of a GPU can hold such a row, with 64 bytes each.
inline bool has_short_rows(const Array& array, int rows, int columns) {
  return rows == 1 && columns <= 8192 && info(array.dtype()).bytes == 2;
}
// Calls f(row) for each row tile of a block of row_blocks.
template <class F>
void each_row_tile(const Array& array, const std::optional<Tile>& tiles, int rows, F f) {
  if (!tiles) return f(bid(0));
  for (Tile row : block_rows(array, *tiles, rows)) f(row);
}

// A slice of an array of [slices, rows, columns] in tiles of [rows, columns], or [columns, rows] if
// transposed. `axis` is the axis of the columns.
class RowView {
 public:
  RowView(const Array& array, Operand slice, int rows, int columns, int axis)
      : view_(axis ? array[{slice}].tiled_view({rows, columns})
                   : array[{slice}].permute({1, 0}).tiled_view({columns, rows})),
        axis_(axis) {}
  Tile load(const Operand& row, Operand column, double pad = 0) const {
    return axis_ ? view_.load({row, column}, pad) : view_.load({column, row}, pad);
  }
  void store(const Tile& row, Operand column, Operand value) const {
    axis_ ? view_.store({row, column}, value) : view_.store({column, row}, value);
  }
  Tile steps() const { return view_.num_tiles(axis_); }

 private:
  View view_;
  int axis_;
};

// Returns 1 at the columns inside the row and 0 past its end, as a row of the tile (a column if transposed).
// A centred value is fma(inside, -center, x): 0 past the end, because x is 0 there.
inline Tile inside_row(const Operand& column, int columns, int axis, const Tile& extent, DType dtype) {
  Tile inside = where(arange(columns) + column * columns < extent, full({columns}, 1, dtype), 0);
  return axis ? inside.expand_dims(0) : inside.expand_dims(1);
}

// Returns the dtype that a kernel computes in and saves for backward: float64 for float64, else float32.
inline DType compute_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }
inline at::ScalarType compute_dtype(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace tile
