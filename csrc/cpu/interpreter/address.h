// Computes the descriptor of an array's tile from index scalars, tile shape and steps.
#pragma once
#include "cpu/interpreter/frame.h"

namespace tile::cpu {

struct ScalarSlot {
  int id = -1;
  Lane lane = Lane::i32;
};
// Returns the value of an integer scalar.
int64_t integer(const Frame& frame, ScalarSlot slot);

// The address of a load or store: the array, one index scalar per axis, and the tile's shape and steps.
struct TileAddress {
  int array = -1;
  std::vector<ScalarSlot> index;
  Shape shape, steps;
  double pad = 0;

  // Returns the descriptor. Extents end one element past the array and are at most the shape's.
  TileRef resolve(const Frame& frame) const;
  // Returns false for an array of rank 0 whose element does not exist.
  bool there(const Frame& frame) const { return frame.arrays[static_cast<size_t>(array)].there; }
};

}  // namespace tile::cpu
