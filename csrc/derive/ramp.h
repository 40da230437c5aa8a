// Ramps: index tiles that count along one of their axes, from a scalar on.
#pragma once
#include <optional>
#include <vector>

#include "ir/op.h"

namespace tile {

// The tile whose elements are the sum of the scalars, a constant, and the position along an axis.
struct Ramp {
  std::vector<Value*> scalars;
  int64_t constant = 0;
  int axis = -1;  // -1: all elements are equal
  int64_t extent = 1;
};
std::optional<Ramp> ramp_of(Value* index);

// Returns the ramps of the index tiles of an access to picked elements, one for each axis of the array; none
// if an index tile is no ramp, or if two elements of the tile may be the same one of the array.
std::vector<Ramp> distinct_ramps(const Op& access);

}  // namespace tile
