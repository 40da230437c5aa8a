// Facts of the launch key about an array's memory, propagated through views.
#pragma once
#include <unordered_map>

#include "ir/op.h"

namespace tile::cuda {

struct ArrayFacts {
  int unit = -1;               // the axis whose stride is 1
  bool aligned = false;        // base and other strides are multiples of 16 bytes
  bool words = false;          // they are not, but of 4 bytes, which hold several elements
  bool whole_vectors = false;  // the extent of the unit axis is one too
  bool small = false;          // strides in bytes fit 32 bits, extents 29
  bool wide = false;           // an extent does not fit i32
  bool forward = false;        // strides of axes longer than 1 are positive, and no axis is empty
  bool constant = false;       // the kernel never writes it
  // The type of strides and tile starts in the emitted code. "wide" means i64 for these and for
  // extents.
  const char* index_type() const { return wide ? "wide" : small ? "i32" : "i64"; }
};

// A kernel's arrays: its parameters and views of them.
class KernelArrays {
 public:
  explicit KernelArrays(const Function& function);
  ArrayFacts facts(const Value* array) const;

 private:
  std::unordered_map<const Value*, ArrayFacts> parameters_;
};

// Returns how many adjacent elements memory can move at once: 1 without a unit axis.
int most_together(const ArrayFacts& facts, DType dtype);
// Returns how many adjacent elements along the unit axis an access with these steps may move at
// once.
int vector_width(const ArrayFacts& facts, DType dtype, const Shape& shape, const Shape& steps);

}  // namespace tile::cuda
