// Loads of a counted loop one iteration early, except those that products read: in registers, or in shared
// memory if registers are short. Each thread reads its own elements there, so that no barrier is needed.
#pragma once
#include <string>
#include <vector>

#include "ir/op.h"

namespace tile::cuda {

class Emitter;

// Prefetches loads of loops that carry sums: their blocks are long, and too few to hide a load's latency.
// Does nothing where there is no room, or some address is not known ahead.
class Prefetches {
 public:
  // Before the loop: a function that loads an iteration, and the first iteration.
  Prefetches(Emitter& emitter, const Op& loop);
  void begin_iteration();

 private:
  struct Load {
    const Op* op;
    bool shared = false;
    std::string next = {};  // the variable of the iteration to come, or its address in shared memory
  };
  bool find_room();
  bool fits_shared(const Op& load) const;
  int64_t bytes(const Op& load) const;  // of a thread
  std::string call_text(const std::string& index) const;

  Emitter& emitter_;
  const Op& loop_;
  std::vector<Load> loads_;
  std::string load_;
};

}  // namespace tile::cuda
