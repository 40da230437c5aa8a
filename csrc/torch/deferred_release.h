// Keeps the arguments of a call until its caller releases them.
#pragma once
#include <c10/util/SmallVector.h>

#include "torch/convert.h"

namespace tile {

// For Python: releasing the last reference other than Python's takes the interpreter lock, which the caller
// holds again by then.
class DeferredRelease {
 public:
  // During its lifetime, the arguments of the call with this stack are kept here.
  explicit DeferredRelease(const BoxedValues& stack);
  ~DeferredRelease();
  DeferredRelease(const DeferredRelease&) = delete;

  // Removes the arguments below the results from the stack.
  static void take_off(BoxedValues& stack, size_t base, size_t count);

 private:
  const BoxedValues& stack_;
  DeferredRelease* const before_;
  c10::SmallVector<c10::IValue, 12> values_;
};

}  // namespace tile
