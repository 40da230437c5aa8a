// The kernels that save in the launches of a run, and a number that says for which launches they save.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "runtime/reverse_kernel.h"

namespace tile {

// The kernel that saves in one launch, or null, and its arrays.
struct SavedLaunch {
  std::shared_ptr<ReverseKernel> kernel;
  std::vector<at::Tensor> tiles;
};

class SavingLaunches {
 public:
  // Returns the kernel that also saves in the next launch; null: it saves nothing.
  std::shared_ptr<ReverseKernel> add(ReverseKernel& kernel, const LaunchSizes& sizes, bool cpu);
  std::shared_ptr<ReverseKernel> add(ReverseKernel& kernel, const Grid& grid,
                                     const std::vector<Argument>& arguments);
  // Passes over a launch whose results need no gradient.
  void skip() { ++count_; }
  size_t count() const { return count_; }
  // A hash of the kernels that save, of their places among the launches, and of their grids, extents and
  // integers. It has 62 bits and is equal in all processes, because a compiled graph's forward and backward
  // may be in different ones.
  int64_t tag() const { return static_cast<int64_t>(hash_ >> 2); }

 private:
  void mix(uint64_t word) { hash_ = (hash_ ^ word) * 0xff51afd7ed558ccdu, hash_ ^= hash_ >> 32; }
  size_t count_ = 0;
  uint64_t hash_ = 0x9e3779b97f4a7c15u;
};

}  // namespace tile
