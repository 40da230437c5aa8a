// Activity: the values of a kernel that depend on the arrays that it is differentiated by.
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/op.h"

namespace tile {

// The accesses of each array parameter, in the order of the kernel.
struct ArrayUses {
  std::vector<const Op*> reads, stores, additions;  // additions: atomic ones to memory
  // the first read, including reads inside loops that only count iterations, which `reads` leaves out
  const Op* first_read = nullptr;
};

class Activity {
 public:
  // Throws located errors for what cannot be differentiated: arrays that are read and written, stores that
  // may overlap, atomic operations whose results are used.
  // saved: arrays that the kernel stores to for its gradient.
  Activity(const Function& kernel, const std::vector<size_t>& inputs, const std::vector<size_t>& results,
           const std::vector<size_t>& saved = {});

  bool active(const Value* value) const { return active_.contains(value); }
  bool is_input(size_t parameter) const { return inputs_.contains(parameter); }
  bool is_result(size_t parameter) const { return results_.contains(parameter); }
  const ArrayUses& uses(size_t parameter) const { return uses_.at(parameter); }

 private:
  void find(const Block& block);
  bool mark(const Value* value);
  void check_result(const Function& kernel, size_t parameter);

  std::vector<ArrayUses> uses_;
  std::unordered_map<const Value*, size_t> parameter_;
  std::unordered_set<size_t> inputs_, results_;
  std::unordered_set<const Value*> active_, invariant_;
  bool changed_ = false;
};

}  // namespace tile
