// Collapses the axes of several arrays into slices, rows and columns.
#include "expr/rows.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "torch/threads.h"

namespace tile {
namespace {

// Gradient operators can be called directly, with any tensors.
void check_fits(const ArrayArgument& view, const ArrayArgument& whole) {
  bool fits = view.rank == whole.rank;
  for (int i = 0; fits && i < whole.rank; ++i)
    fits =
        view.sizes[i] == whole.sizes[i] || view.sizes[i] == 1 || (whole.sizes[i] == 1 && view.sizes[i] > 0);
  const auto shape = [](const ArrayArgument& array) {
    return c10::IntArrayRef(array.sizes.data(), static_cast<size_t>(array.rank));
  };
  if (!fits)
    fail(ErrorKind::value, "a tensor of shape ", shape(view), " does not fit one of shape ", shape(whole),
         "; extents must be equal or 1");
}

}  // namespace

ArrayArgument narrowed(ArrayArgument array, int axis, int64_t from, int64_t size) {
  const auto i = static_cast<size_t>(axis);
  array.sizes[i] = size;
  array.data = static_cast<char*>(array.data) + from * array.strides[i] * info(array.dtype).bytes;
  return array;
}

void Rows::Axes::insert(const Axis& axis, size_t at) {
  for (size_t i = count++; i > at; --i) all[i] = all[i - 1];
  all[at] = axis;
}

Rows::Rows(c10::ArrayRef<ArrayArgument> arrays, uint32_t reduced) : views_(arrays.begin(), arrays.end()) {
  TILE_CHECK(views_.size() <= most);
  const ArrayArgument& whole = views_.front();
  for (const ArrayArgument& view : views_) check_fits(view, whole);
  Axes rows, columns;
  for (int i = 0; i < whole.rank; ++i) {
    empty_ |= whole.sizes[i] == 0;
    if (whole.sizes[i] == 1) continue;
    Axis axis{whole.sizes[i], {}};
    for (size_t k = 0; k < views_.size(); ++k)
      axis.strides[k] = views_[k].sizes[i] == 1 ? 0 : views_[k].strides[i];
    if (reduced >> i & 1) {
      columns.insert(axis, columns.count);
      continue;
    }
    size_t at = rows.count;  // after the axes whose stride is as large or larger
    while (at > 0 && rows.all[at - 1].strides[0] < axis.strides[0]) --at;
    rows.insert(axis, at);
  }
  merge(rows, max_extent);  // a longer axis becomes slices or separate launches
  merge(columns, std::numeric_limits<int64_t>::max());
  flat_ = columns.count < 2;
  const Axis one{1, {}};
  const Axis& column = columns.count == 0 ? one : columns.all[columns.count - 1];
  const Axis& row = rows.count == 0 ? one : rows.all[rows.count - 1];
  const Axis& slice = rows.count < 2 ? one : rows.all[rows.count - 2];
  transposed_ = rows.count > 0 && columns.count > 0 && row.strides[0] < column.strides[0];
  if (rows.count > 2) leading_.assign(rows.all.begin(), rows.all.begin() + rows.count - 2);
  for (const Axis& axis : leading_) count_ *= axis.extent;
  for (size_t k = 0; k < views_.size(); ++k) {
    ArrayArgument& view = views_[k];
    bool narrow = true;
    for (int i = 0; i < view.rank; ++i) narrow &= !(reduced >> i & 1) || view.sizes[i] == 1;
    data_[k] = view.data;
    view.rank = 3;
    view.sizes = {slice.extent, row.extent, narrow ? 1 : column.extent};
    // The stride of a single column is set to 1, so that such rows have the same key as others.
    view.strides = {slice.strides[k], row.strides[k], narrow || column.extent == 1 ? 1 : column.strides[k]};
    view.scalars = narrow && !transposed_ && column.extent > 1;
    // Statistics keep the stride of a single row, so that it has the same key as many rows.
    if (view.scalars) view.strides[2] = 0;
    if (view.scalars && row.extent == 1) view.strides[1] = 1;
  }
}

void Rows::merge(Axes& axes, int64_t most_extent) const {
  size_t count = 0;
  for (size_t i = 0; i < axes.count; ++i) {
    const Axis axis = axes.all[i];
    bool joined = count > 0 && axes.all[count - 1].extent <= most_extent / std::max<int64_t>(axis.extent, 1);
    for (size_t k = 0; joined && k < views_.size(); ++k)
      joined = axes.all[count - 1].strides[k] == axis.extent * axis.strides[k];
    if (joined)
      axes.all[count - 1] = {axes.all[count - 1].extent * axis.extent, axis.strides};
    else
      axes.all[count++] = axis;
  }
  axes.count = count;
}

void Rows::seek(int64_t index) {
  if (leading_.empty()) return;
  std::array<int64_t, most> offsets{};
  for (size_t i = leading_.size(); i-- > 0; index /= leading_[i].extent)
    for (size_t k = 0; k < views_.size(); ++k)
      offsets[k] += index % leading_[i].extent * leading_[i].strides[k];
  for (size_t k = 0; k < views_.size(); ++k)
    views_[k].data = static_cast<char*>(data_[k]) + offsets[k] * info(views_[k].dtype).bytes;
}

bool merge_axes(std::vector<ArrayArgument>& arrays, int first) {
  std::vector<int> axes;
  const ArrayArgument whole = arrays.front();
  for (int i = first; i < whole.rank; ++i)
    if (whole.sizes[i] != 1) axes.push_back(i);
  std::stable_sort(axes.begin(), axes.end(),
                   [&](int a, int b) { return whole.strides[a] > whole.strides[b]; });
  for (ArrayArgument& array : arrays) {
    int64_t extent = 1, stride = 1;
    for (size_t i = axes.size(); i-- > 0; extent *= array.sizes[axes[i]]) {
      if (i + 1 == axes.size())
        stride = array.strides[axes[i]];
      else if (array.strides[axes[i]] != extent * stride)
        return false;
    }
    array.rank = first + 1;
    array.sizes[first] = extent;
    array.strides[first] = stride;
  }
  return true;
}

namespace {

// A tile fits in registers here: 4096 elements are 16 for each of 256 threads. For long rows, the width is a
// power of two or 5, 6 or 7 eighths of one.
RowTile gpu_row_tile(int64_t columns, bool transposed) {
  constexpr int64_t elements = 4096, longest = 32768;
  if (transposed) return columns <= 64 ? RowTile{64, 64, RowFit::inside} : RowTile{32, 128, RowFit::looped};
  if (columns > longest) return {1, 8192, RowFit::looped};
  auto extent = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(columns, 64))));
  if (extent > 1024) extent = extent / 8 * std::max<int64_t>(5, ceil_div(columns, extent / 8));
  // A row of 1024 or more elements has a tile to itself: several rows in a tile would wait for each other at
  // every sum.
  const int64_t rows = extent >= 1024 ? 1 : elements / extent;
  return {static_cast<int>(rows), static_cast<int>(extent),
          extent == columns ? RowFit::exact : RowFit::inside};
}

}  // namespace

RowTile row_tile(const Rows& rows) {
  const int64_t columns = rows.columns();
  const bool transposed = rows.transposed();
  if (rows.on_gpu()) return gpu_row_tile(columns, transposed);
  if (transposed) return columns <= 64 ? RowTile{256, 64, RowFit::inside} : RowTile{64, 256, RowFit::looped};
  // For the widths that models use most, no column needs a mask and nothing past the row's end is computed.
  // Widths 128 and 1024 fill the tiles below.
  constexpr int64_t exact[] = {64, 256, 512, 2048, 4096, 8192, 16384};
  if (std::find(std::begin(exact), std::end(exact), columns) != std::end(exact))
    return {static_cast<int>(std::min<int64_t>(32768 / columns, 256)), static_cast<int>(columns),
            RowFit::exact};
  if (columns <= 128) return {256, 128, RowFit::inside};
  if (columns <= 1024) return {32, 1024, RowFit::inside};
  if (columns <= 8192) return {8, 8192, RowFit::inside};
  if (columns <= 131072) return {1, 131072, RowFit::inside};
  return {1, 16384, RowFit::looped};
}

RowTile row_tile_for_threads(const Rows& rows) {
  constexpr int part = 8;
  constexpr int64_t least = 32768;  // elements from which waking threads pays off
  // Elements per thread at least, because each tile has a fixed cost.
  constexpr int64_t least_a_thread = 8192;
  RowTile tile = row_tile(rows);
  const int64_t all = rows.slices() * rows.rows() * rows.columns();
  if (rows.on_gpu() || rows.transposed() || all < least) return tile;
  const int64_t threads = launch_threads();
  if (rows.slices() * ceil_div(rows.rows(), tile.rows) < std::min(threads, all / least_a_thread))
    tile.rows = std::max(1, tile.rows / part);
  return tile;
}

RowBlocks row_blocks(const Rows& rows, RowTile tile) {
  constexpr int64_t elements = 131072, blocks = 64;
  const int64_t tiles = ceil_div(rows.rows(), tile.rows);
  if (rows.on_gpu()) return {{tiles, rows.slices()}, std::nullopt};
  const int64_t one = std::max<int64_t>(1, std::min<int64_t>(rows.rows(), tile.rows) * rows.columns());
  const int64_t each =
      std::clamp<int64_t>(elements / one, 1, std::max<int64_t>(1, tiles * rows.slices() / blocks));
  return {{ceil_div(tiles, each), rows.slices()}, static_cast<int>(each)};
}

}  // namespace tile
