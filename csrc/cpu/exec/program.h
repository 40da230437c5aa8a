// A kernel compiled for the CPU: nodes that run on a frame for every block of a grid.
#pragma once
#include <memory>
#include <vector>

#include "cpu/interpreter/frame.h"
#include "cpu/interpreter/node_state_cache.h"
#include "ir/op.h"

namespace tile::cpu {

class Program {
 public:
  explicit Program(Function function);  // after the passes
  ~Program();
  // `arrays` and `scalars` are separate, each in the order of the kernel's parameters; strides are in bytes.
  void run(const int64_t (&blocks)[3], const std::vector<ArrayRef>& arrays,
           const std::vector<Scalar>& scalars) const;

 private:
  struct Thread;
  void prepare(Frame& frame, const std::vector<ArrayRef>& arrays, const std::vector<Scalar>& scalars) const;
  std::unique_ptr<NodeStateCache::Slots> take_node_states(int64_t worker) const;
  Function function_;
  OpNodes nodes_;
  std::vector<Scalar> scalars_;
  std::vector<int> array_arguments_, scalar_arguments_;  // indices in the frame
  std::vector<size_t> slot_bytes_;
  size_t tiles_ = 0, arrays_ = 0, scratch_bytes_ = 0, node_states_ = 0;
  bool needs_panels_ = false;
  double block_cost_ = 0;  // approximate number of elements processed
  int blocks_between_looks_ = 1;
  mutable NodeStateCache idle_;  // state kept by workers that have finished
};

}  // namespace tile::cpu
