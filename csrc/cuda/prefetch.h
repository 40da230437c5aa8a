// Prefetches loads of a counted loop, except those that feed products. The tiles wait in registers,
// or in shared memory if registers are short. Each thread reads back its own elements, so no
// barrier is needed.
#pragma once
#include <string>
#include <vector>

#include "ir/op.h"

namespace tile::cuda {

class Emitter;

// Prefetches the loads of loops that carry sums: such kernels have long, few blocks, which do not
// hide a load's latency. Does nothing if there is no room or if an address is not known ahead.
class Prefetches {
 public:
  // Emits, before the loop, a function that loads an iteration, and the load of the first
  // iteration.
  Prefetches(Emitter& emitter, const Op& loop);
  void begin_iteration();

 private:
  struct Load {
    const Op* op;
    bool shared = false;
    std::string next = {};  // the variable for the next iteration, or its address in shared memory
  };
  bool find_room();
  bool fits_shared(const Op& load) const;
  int64_t bytes(const Op& load) const;  // per thread
  std::string call_text(const std::string& index) const;

  Emitter& emitter_;
  const Op& loop_;
  std::vector<Load> loads_;
  std::string load_;
};

}  // namespace tile::cuda
