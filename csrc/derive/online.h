// Online softmax: loops that carry a running maximum, and sums that are scaled again whenever it grows.
#pragma once
#include <functional>
#include <unordered_map>
#include <vector>

#include "ir/op.h"

namespace tile {

// A loop whose gradient may take the last maximum for a constant, from the first iteration on. Its sums are
// then sums alone, so that no iteration needs the values of another one.
struct OnlineLoop {
  size_t maximum = 0;           // its place among the carried values
  const Value* next = nullptr;  // the maximum at the end of an iteration
  // Products by which sums are scaled: each equals this operand, if the maximum does not change.
  std::unordered_map<const Value*, size_t> scaled;
};

// Returns the loops of a kernel that are such ones, by proof: if the maximum were another number in each
// iteration, the sums would be the same multiples of powers of it, and what is stored would not change.
// is_stored(op): the gradient of what the op writes is given. active(value): it depends on what the kernel is
// differentiated by.
std::unordered_map<const Op*, OnlineLoop> online_loops(const Function& kernel,
                                                       const std::function<bool(const Op&)>& is_stored,
                                                       const std::function<bool(const Value*)>& active);

}  // namespace tile
