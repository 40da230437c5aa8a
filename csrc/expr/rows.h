// Arrays of one shape seen as [slices, rows, columns]: how softmax and the norms walk tensors of any rank and
// strides.
#pragma once
#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "tile/op.h"

namespace tile {

// The largest extent that a kernel takes, and the extent of the chunks into which longer axes are cut.
inline constexpr int64_t max_extent = std::numeric_limits<int32_t>::max();
inline constexpr int64_t extent_of_chunks = int64_t{1} << 30;

// Returns the part of the array with `size` indices of an axis, starting at `from`.
ArrayArgument narrowed(ArrayArgument array, int axis, int64_t from, int64_t size);

class Rows {
 public:
  static constexpr size_t most_arrays = 16;

  // Axis i is part of the columns where bit i of `reduced` is set. The first array has the whole shape and
  // gives the order of the rows; where another's extent is 1 it stays in place. All have one rank.
  Rows(c10::ArrayRef<ArrayArgument> arrays, uint32_t reduced);

  bool empty() const { return empty_; }
  // False where the columns are no single axis in every array: the caller makes them contiguous.
  bool flat() const { return flat_; }
  bool on_gpu() const { return views_[0].device == DeviceKind::cuda; }
  // Rows are closer in memory than columns.
  bool transposed() const { return transposed_; }
  int64_t slices() const { return view(0).sizes[0]; }
  int64_t rows() const { return view(0).sizes[1]; }
  int64_t columns() const { return view(0).sizes[2]; }
  // How often each() calls.
  int64_t count() const { return count_; }

  // Calls f(i) for the leading axes that a view of rank 3 cannot hold; view(k) is then array k's part i.
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
  // Those of a tensor, on the stack: this is made at every call.
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

// Merges the axes of all arrays from `first` on into one; false where they are no single axis in each.
bool merge_axes(std::vector<ArrayArgument>& arrays, int first);

// How rows lie in their tiles: longer than a tile, which the kernel walks; in a tile that may be wider; or in
// one of just their width, of which no column needs a mask.
enum class RowFit { looped, inside, exact };
// A tile of a row operator. The few choices here bound the number of kernels; extents below the tile's cost
// little.
struct RowTile {
  int rows, columns;
  RowFit fit;
  bool whole() const { return fit != RowFit::looped; }
};
RowTile row_tile(const Rows& rows);
// The same, or one of fewer rows where a CPU's threads would else find too few of them. For results that do
// not depend on how rows are parted: a sum over rows would change with the number of threads.
RowTile row_tile_for_threads(const Rows& rows);

// Blocks that walk `tiles` row tiles of a slice each: on a CPU enough work for a block and enough blocks for
// the threads; on a GPU one, and none says that without a loop.
struct RowBlocks {
  Grid grid;
  std::optional<int> tiles;
};
RowBlocks row_blocks(const Rows& rows, RowTile tile);

// for (Tile row : block_rows(x, tiles, rows)): the row tiles of this block.
inline Range block_rows(const Array& array, const Tile& tiles, int rows, const Tile& block = bid(0)) {
  Tile low = block * tiles;
  return range(low, min(low + tiles, cdiv(array.dim(1), rows)));
}
// Returns true if half the usual threads of a GPU hold such a row: 64 bytes each.
inline bool has_short_rows(const Array& array, int rows, int columns) {
  return rows == 1 && columns <= 8192 && info(array.dtype()).bytes == 2;
}
// The same for row_blocks: f(row).
template <class F>
void each_row_tile(const Array& array, const std::optional<Tile>& tiles, int rows, F f) {
  if (!tiles) return f(bid(0));
  for (Tile row : block_rows(array, *tiles, rows)) f(row);
}

// A slice of an array of [slices, rows, columns] in tiles of rows x columns, or of columns x rows where
// transposed: `axis` is that of the columns.
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

// 1 at the columns that are inside the row, 0 past its end, as a row of the tile (a column where transposed).
// A centred value is fma(inside, -center, x): 0 past the end, where x is 0.
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
