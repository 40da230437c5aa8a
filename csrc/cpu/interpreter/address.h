// Where tiles of an array lie: from index scalars, tile shape and steps to a descriptor.
#pragma once
#include "cpu/interpreter/frame.h"

namespace tile::cpu {

struct ScalarSlot {
  int id = -1;
  Lane lane = Lane::i32;
};
// The value of an integer scalar.
int64_t integer(const Frame& frame, ScalarSlot slot);

// A load's or store's address: which array, one index scalar an axis, the tile's shape and steps.
struct TileAddress {
  int array = -1;
  std::vector<ScalarSlot> index;
  Shape shape, steps;
  double pad = 0;

  // Extents end one element after the array does, and are at most the shape's.
  TileRef resolve(const Frame& frame) const;
  // False: the array is one element (rank 0), which does not exist.
  bool there(const Frame& frame) const { return frame.arrays[static_cast<size_t>(array)].there; }
};

}  // namespace tile::cpu
