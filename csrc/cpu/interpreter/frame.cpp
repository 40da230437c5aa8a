// Scratch memory and copies of tiles.
#include "cpu/interpreter/frame.h"

#include <algorithm>
#include <cstring>

#include "cpu/interpreter/tables.h"

namespace tile::cpu {
namespace {
void move_lanes(const char* from, int64_t column, char* to, int64_t count, int64_t element) {
  if (column == element) {
    std::memcpy(to, from, static_cast<size_t>(count * element));
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * element, from + i * column, static_cast<size_t>(element));
}

}  // namespace

char* Scratch::take(size_t bytes) {
  bytes = (bytes + 63) / 64 * 64;
  if (used_ == 0) spill_.clear();
  if (used_ + bytes <= memory_.size()) {
    char* p = memory_.data() + used_;
    used_ += bytes;
    return p;
  }
  used_ = std::max<size_t>(used_, 64);
  return spill_.emplace_back().at_least(bytes);
}

namespace {
TileRef dense(char* data, DType dtype, bool lanes, int rank, const int64_t* extents) {
  TileRef tile;
  tile.data = data;
  tile.dtype = dtype;
  tile.lanes = lanes;
  tile.rank = rank;
  int64_t bytes = lanes ? lane_bytes(lane_of(dtype)) : info(dtype).bytes;
  for (int i = rank - 1; i >= 0; --i) {
    tile.axes[i] = {extents[i], bytes, 0, unlimited};
    bytes *= extents[i];
  }
  return tile;
}
}  // namespace

TileRef dense_lanes(char* data, DType dtype, int rank, const int64_t* extents) {
  return dense(data, dtype, true, rank, extents);
}
TileRef dense_elements(char* data, DType dtype, int rank, const int64_t* extents) {
  return dense(data, dtype, false, rank, extents);
}

void copy_lanes(const TileRef& from, int rank, const int64_t* extents, char* to) {
  const MoveRow& move = move_row(from.dtype);
  const int64_t element = lane_bytes(lane_of(from.dtype));
  // A tile that is already dense is copied at once: with a single column, lines would be copied one by one.
  int64_t bytes = element;
  bool dense = from.lanes;
  for (int i = rank; i-- > 0 && dense; bytes *= extents[i])
    dense = from.axes[i].valid == unlimited && from.axes[i].first <= 0 && from.axes[i].extent == extents[i] &&
            (extents[i] == 1 || from.axes[i].stride == bytes);
  if (dense) {
    std::memcpy(to, from.data, static_cast<size_t>(bytes));
    return;
  }
  const ChunkFunction repeated = cast_row(lane_of(from.dtype), lane_of(from.dtype)).variants[1];
  const int inner = rank - 1;
  const int64_t cols = rank ? extents[inner] : 1;
  int64_t index[max_rank] = {};
  int64_t lines = 1;
  for (int i = 0; i < inner; ++i) lines *= extents[i];
  for (int64_t line = 0; line < lines; ++line, to += cols * element) {
    const char* data = from.data;
    bool inside = true;
    for (int i = 0; i < inner; ++i) {
      bool limited = from.axes[i].valid != unlimited || from.axes[i].first > 0;
      int64_t at = limited ? index[i] : std::min(index[i], from.axes[i].extent - 1);
      inside &= at >= from.axes[i].first && at < from.axes[i].valid;
      data += at * from.axes[i].stride;
    }
    // Columns [0, low) and [high, cols) are padding. A clamped tile repeats its last column instead.
    int64_t low = 0, high = cols, repeat = 0;
    if (rank) {
      if (from.axes[inner].valid != unlimited || from.axes[inner].first > 0) {
        low = std::clamp<int64_t>(from.axes[inner].first, 0, cols);
        high = std::clamp<int64_t>(from.axes[inner].valid, low, cols);
      } else if (from.axes[inner].extent < cols) {
        repeat = cols - from.axes[inner].extent;
        high = from.axes[inner].extent;
      }
    }
    if (!inside) low = high = repeat = 0;
    if (high - low < cols && !repeat) move.fill(to, from.pad, cols);
    int64_t step = rank ? from.axes[inner].stride : 0;
    int64_t count = high - low;
    if (count > 0) {
      if (from.lanes)
        move_lanes(data + low * step, step, to + low * element, count, element);
      else
        move.load(data + low * step, 0, step, to + low * element, 0, 1, count);
    }
    if (repeat > 0) repeated({1, repeat, to + high * element, 0, {to + (high - 1) * element}, {0}});
    for (int i = inner - 1; i >= 0 && ++index[i] == extents[i]; --i) index[i] = 0;
  }
}

TileRef materialise(const TileRef& from, int rank, const int64_t* extents, Scratch& scratch) {
  bool ready = from.lanes;
  for (int i = 0; ready && i < rank; ++i)
    ready = from.in_bounds(i) && from.axes[i].valid >= extents[i] && (from.axes[i].extent >= extents[i]);
  if (ready) {
    TileRef same = from;
    for (int i = 0; i < rank; ++i) same.axes[i].extent = extents[i];
    return same;
  }
  int64_t bytes = lane_bytes(lane_of(from.dtype));
  for (int i = 0; i < rank; ++i) bytes *= extents[i];
  char* to = scratch.take(static_cast<size_t>(bytes));
  copy_lanes(from, rank, extents, to);
  return dense_lanes(to, from.dtype, rank, extents);
}

}  // namespace tile::cpu
