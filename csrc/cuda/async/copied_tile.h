// A tile that the copy unit (TMA) moves between an array and shared memory: which array and which of its
// axes, and what a tensor map asks of both.
#pragma once
#include <vector>

#include "cuda/array_facts.h"
#include "cuda/shared_layout.h"
#include "ir/op.h"

namespace tile::cuda {

struct CopiedTile {
  const Op* access = nullptr;  // the load or store
  int parameter = 0;           // the number of the array
  // For each axis of the array: the tile's axis along it, or -1 and the index that fixes it.
  std::vector<int> axes;
  std::vector<Value*> fixed;
  SharedLayout layout;
  bool rounds = false;  // its elements of f32 become tf32 as they are copied

  // The dtype in shared memory of what is loaded as `type`.
  DType dtype_of(const Type& type) const { return rounds ? DType::tf32 : type.dtype; }

  static constexpr size_t most_axes = 5;  // of a tensor map
  // Finds the parameter of the access's array. Returns false for a slice.
  bool follow(const Function& function, const Op& of);
};

// Returns true if a tensor map can describe the array.
bool has_map(const ArrayFacts& facts);
// Returns the largest swizzle whose rows divide the width, or 0.
int swizzle_of(int64_t width_bytes);

}  // namespace tile::cuda
