// Scratch memory and copies of tiles.
#include "cpu/frame.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "cpu/tables.h"

namespace tile::cpu {
namespace {
char* allocate(size_t bytes) {
  void* p = std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
  if (!p) throw std::bad_alloc();
  return static_cast<char*>(p);
}

void move_lanes(const char* from, int64_t column, char* to, int64_t count, int64_t element) {
  if (column == element) {
    std::memcpy(to, from, static_cast<size_t>(count * element));
    return;
  }
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * element, from + i * column, static_cast<size_t>(element));
}
}  // namespace

void Scratch::Free::operator()(char* p) const { std::free(p); }

void PackedStrip::Free::operator()(char* p) const { std::free(p); }

void PackedStrip::reserve(size_t bytes) {
  if (bytes <= capacity_) return;
  memory_.reset(allocate(bytes));
  capacity_ = bytes;
}

void Scratch::reserve(size_t bytes) {
  if (bytes <= capacity_) return;
  memory_.reset(allocate(bytes));
  capacity_ = bytes;
}

char* Scratch::take(size_t bytes) {
  bytes = (bytes + 63) / 64 * 64;
  if (used_ == 0) spill_.clear();
  if (used_ + bytes <= capacity_) {
    char* p = memory_.get() + used_;
    used_ += bytes;
    return p;
  }
  spill_.emplace_back(allocate(bytes));
  used_ = std::max<size_t>(used_, 1);
  return spill_.back().get();
}

int64_t dense_strides(const int64_t* extent, int rank, int64_t element, int64_t* stride) {
  int64_t bytes = element;
  for (int i = rank - 1; i >= 0; --i) {
    stride[i] = bytes;
    bytes *= extent[i];
  }
  return bytes;
}

TileRef dense_lanes(char* data, DType dtype, int rank, const int64_t* extents) {
  TileRef tile;
  tile.data = data;
  tile.dtype = dtype;
  std::copy(extents, extents + rank, tile.extent);
  std::fill(tile.valid, tile.valid + rank, unlimited);
  dense_strides(extents, rank, lane_bytes(lane_of(dtype)), tile.stride);
  return tile;
}

void copy_lanes(const TileRef& from, int rank, const int64_t* extents, char* to) {
  const MoveRow& move = move_row(from.dtype);
  const int64_t element = lane_bytes(lane_of(from.dtype));
  const int inner = rank - 1;
  const int64_t cols = rank ? extents[inner] : 1;
  int64_t index[max_rank] = {};
  int64_t lines = 1;
  for (int i = 0; i < inner; ++i) lines *= extents[i];
  for (int64_t line = 0; line < lines; ++line, to += cols * element) {
    const char* data = from.data;
    bool inside = true;
    for (int i = 0; i < inner; ++i) {
      bool limited = from.valid[i] != unlimited || from.first[i] > 0;
      int64_t at = limited ? index[i] : std::min(index[i], from.extent[i] - 1);
      inside &= at >= from.first[i] && at < from.valid[i];
      data += at * from.stride[i];
    }
    // Columns: [0, low) and [high, cols) are padding; a clamped tile repeats its last column instead.
    int64_t low = 0, high = cols, repeat = 0;
    if (rank) {
      if (from.valid[inner] != unlimited || from.first[inner] > 0) {
        low = std::clamp<int64_t>(from.first[inner], 0, cols);
        high = std::clamp<int64_t>(from.valid[inner], low, cols);
      } else if (from.extent[inner] < cols) {
        repeat = cols - from.extent[inner];
        high = from.extent[inner];
      }
    }
    if (!inside) low = high = repeat = 0;
    if (high - low < cols && !repeat) move.fill(to, from.pad, cols);
    int64_t step = rank ? from.stride[inner] : 0;
    int64_t count = high - low;
    auto read = [&](const char* source, int64_t column, char* target, int64_t n) {
      if (from.lanes)
        move_lanes(source, column, target, n, element);
      else
        move.load(source, 0, column, target, 0, 1, n);
    };
    if (count > 0) read(data + low * step, step, to + low * element, count);
    for (int64_t c = high; repeat > 0 && c < cols; ++c) read(data + (high - 1) * step, 0, to + c * element, 1);
    for (int i = inner - 1; i >= 0 && ++index[i] == extents[i]; --i) index[i] = 0;
  }
}

TileRef materialise(const TileRef& from, int rank, const int64_t* extents, Scratch& scratch) {
  bool ready = from.lanes;
  for (int i = 0; ready && i < rank; ++i)
    ready = from.whole(i) && from.valid[i] >= extents[i] && (from.extent[i] >= extents[i]);
  if (ready) {
    TileRef same = from;
    std::copy(extents, extents + rank, same.extent);
    return same;
  }
  int64_t bytes = lane_bytes(lane_of(from.dtype));
  for (int i = 0; i < rank; ++i) bytes *= extents[i];
  char* to = scratch.take(static_cast<size_t>(bytes));
  copy_lanes(from, rank, extents, to);
  return dense_lanes(to, from.dtype, rank, extents);
}

}  // namespace tile::cpu
