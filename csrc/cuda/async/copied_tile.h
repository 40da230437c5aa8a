// A tile that the copy unit (TMA) moves between an array and shared memory: which array and which of its
// axes, and what a tensor map asks of both.
#pragma once
#include <string>
#include <vector>

#include "cuda/array_facts.h"
#include "cuda/parameters.h"
#include "cuda/shared_layout.h"
#include "ir/op.h"

namespace tile::cuda {

struct CopiedTile {
  const Op* access = nullptr;  // the load or store
  int parameter = 0;           // the number of the array
  // For each axis of the array: the tile's axis along it, or -1 and the index that fixes it.
  std::vector<int> axes;
  std::vector<Value*> fixed;
  std::vector<bool> at_first;  // the axis is fixed at its first element
  // The axis of the array of which the tile sees the elements from start to stop only, or -1.
  int sliced = -1;
  Value *start = nullptr, *stop = nullptr;
  SharedLayout layout;
  bool rounds = false;  // its elements of f32 become tf32 as they are copied

  // The dtype in shared memory of what is loaded as `type`.
  DType dtype_of(const Type& type) const { return rounds ? DType::tf32 : type.dtype; }

  // Finds the parameter of the access's array. Returns false where no tensor map can describe the view; then
  // why_not says what it is.
  bool follow(const Function& function, const Op& of);
  std::string why_not;
  // Dimensions of the map. A slice takes more of them, so an axis fixed at its first element is left out.
  size_t dimensions() const;
  bool leaves_out(size_t axis) const { return sliced >= 0 && at_first[axis]; }
  static constexpr size_t most_dimensions = 5;
  // The map that moves a panel; `unit` is the axis of the array along which elements are adjacent.
  TensorMapSpec map(int unit) const;
};

// Returns true if a tensor map can describe the array. Of a slice the whole array decides, whose addresses
// the copies take.
bool has_map(const KernelArrays& arrays, const Value* array);
// Returns the largest swizzle whose rows divide the width, or 0.
int swizzle_of(int64_t width_bytes);

}  // namespace tile::cuda
