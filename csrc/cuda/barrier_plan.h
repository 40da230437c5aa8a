// Finds the accesses that need a barrier before them: another thread of the block has accessed the
// same memory, and one of the two accesses is a write.
#pragma once
#include <unordered_set>

#include "cuda/assign.h"
#include "ir/walk.h"

namespace tile::cuda {

class BarrierPlan {
 public:
  BarrierPlan(const Function& function, const LayoutPlan& plan)
      : plan_(plan), uses_(count_uses(function.body())) {
    visit(function.body());
  }
  bool barrier_before(const Op& op) const { return barriers_.count(&op) != 0; }

 private:
  void visit(const Block& block);
  void access(const Op& op);
  bool same_thread(const Op& a, const Op& b) const;

  const LayoutPlan& plan_;
  const UseCounts uses_;
  std::unordered_set<const Op*> open_;  // accesses not yet followed by a barrier
  std::unordered_set<const Op*> barriers_;
};

}  // namespace tile::cuda
