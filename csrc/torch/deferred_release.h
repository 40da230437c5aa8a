// The arguments of a call, kept until its caller lets them go.
#pragma once
#include <c10/util/SmallVector.h>

#include "torch/convert.h"

namespace tile {

// For Python: to drop the last reference but Python's own takes its lock, which the caller has again by then.
class DeferredRelease {
 public:
  // While it lives, the arguments of the call that `stack` is for are kept here.
  explicit DeferredRelease(const BoxedValues& stack);
  ~DeferredRelease();
  DeferredRelease(const DeferredRelease&) = delete;

  // Takes the arguments from under the results.
  static void take_off(BoxedValues& stack, size_t base, size_t count);

 private:
  const BoxedValues& stack_;
  DeferredRelease* const before_;
  c10::SmallVector<c10::IValue, 12> values_;
};

}  // namespace tile
