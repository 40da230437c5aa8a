// Array: a kernel argument in memory. View: an array divided into tiles, which load and store access.
#pragma once
#include <initializer_list>

#include "dsl/tile.h"

namespace tile {

class View;

class Array {
 public:
  explicit Array(Value* value) : value_(value) {}

  Value* value() const { return value_; }
  DType dtype() const { return value_->type.dtype; }
  int rank() const { return value_->type.array_rank; }
  // Returns the extent of an axis, as i32, or as i64 in a kernel with Extents::wide. Negative axes count from
  // the end.
  Tile dim(int axis, Location location = Location::current()) const;
  // Returns the distance between adjacent elements along an axis, in elements, as i64.
  Tile stride(int axis, Location location = Location::current()) const;
  // Fixes the leading axes: q[{b, h}] of a 4-d array is a 2-d array.
  Array operator[](std::initializer_list<Operand> indices) const;
  // Returns the part start <= index < stop of an axis; loads and stores clip at its ends.
  Array slice(int axis, Operand start, Operand stop, Location location = Location::current()) const;
  // Returns the same memory with its axes in another order.
  Array permute(std::vector<int> axes, Location location = Location::current()) const;
  // Divides the array into tiles of `shape`, with one extent per axis. Tile i starts at i * step; the default
  // step is the extent.
  View tiled_view(Shape shape, Location location = Location::current()) const;
  View tiled_view(Shape shape, Shape steps, Location location = Location::current()) const;

 private:
  Value* value_;
};

class View {
 public:
  View(Array array, Shape shape, Shape steps)
      : array_(array), shape_(std::move(shape)), steps_(std::move(steps)) {}

  DType dtype() const { return array_.dtype(); }
  const Shape& shape() const { return shape_; }
  // The same view, of which the author promises that every tile that is accessed lies inside of the array: a
  // GPU does not check, and accesses other memory where it does not.
  View unchecked() const;
  // Returns the number of tiles along an axis, in the dtype of dim().
  Tile num_tiles(int axis, Location location = Location::current()) const;
  // Loads the tile at an index; elements outside the array are `pad` (for integer arrays: 0).
  Tile load(std::initializer_list<Operand> index, double pad = 0,
            Location location = Location::current()) const;
  // Writes a tile (cast to the array's dtype, broadcast to the view's shape); elements outside are dropped.
  void store(std::initializer_list<Operand> index, Operand tile) const;
  // Adds a tile (cast and broadcast likewise) to memory, atomically per element; the order of additions is
  // unspecified.
  void atomic_add(std::initializer_list<Operand> index, Operand tile) const;
  // Replace each element by the larger or smaller of it and the tile's element, or change the bits of
  // integers and bool. They are atomic per element and unordered with other memory accesses.
  void atomic_max(std::initializer_list<Operand> index, Operand tile) const;
  void atomic_min(std::initializer_list<Operand> index, Operand tile) const;
  void atomic_and(std::initializer_list<Operand> index, Operand tile) const;
  void atomic_or(std::initializer_list<Operand> index, Operand tile) const;
  void atomic_xor(std::initializer_list<Operand> index, Operand tile) const;

 private:
  std::vector<Value*> address(const char* operation, std::initializer_list<Operand> index,
                              const Location& at) const;
  void write(const Primitive& primitive, const char* operation, std::initializer_list<Operand> index,
             const Operand& tile) const;
  void change(const Primitive& primitive, std::initializer_list<Operand> index, const Operand& tile) const;
  Array array_;
  Shape shape_, steps_;
  bool inside_ = false;  // tiles are, by promise
};

}  // namespace tile
