// The type of an IR value: a tile dtype[shape] (rank 0 is a scalar), or an array argument array<dtype,rank>.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace tile {

using Shape = std::vector<int64_t>;

int64_t element_count(const Shape& shape);  // at most INT64_MAX
// The most elements of a tile, which are a GiB of f64. Indices within a tile are i32 on every target.
inline constexpr int64_t most_tile_elements = int64_t{1} << 27;

struct Type {
  DType dtype = DType::f32;
  Shape shape;          // of a tile
  int array_rank = -1;  // >= 0: an array with so many axes, whose `shape` is empty

  static Type tile(DType dtype, Shape shape = {}) { return {dtype, std::move(shape), -1}; }
  static Type array(DType dtype, int rank) { return {dtype, {}, rank}; }
  bool is_array() const { return array_rank >= 0; }
  bool is_scalar() const { return !is_array() && shape.empty(); }
  int rank() const { return is_array() ? array_rank : static_cast<int>(shape.size()); }
  bool operator==(const Type&) const = default;
};

// Returns the error text for a tile with more elements.
std::string too_large_text(const Type& type);

std::ostream& operator<<(std::ostream& out, const Type& type);
std::ostream& operator<<(std::ostream& out, const Shape& shape);  // [2,3]

}  // namespace tile
