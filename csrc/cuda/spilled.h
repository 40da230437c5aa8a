// Spilled tiles: loop-carried tiles in shared memory, because the threads' registers have no room for them.
// Each thread keeps its own elements there, so no barrier is needed.
#pragma once
#include <string>
#include <vector>

#include "ir/op.h"

namespace tile::cuda {

class Emitter;

class SpilledTiles {
 public:
  // Spills the values that a `for` carries and that are read once per iteration, the last first, until the
  // remaining tiles leave more than a quarter of the registers for addresses and temporaries.
  SpilledTiles(Emitter& emitter, const Op& loop);
  bool has(size_t result) const { return !memory_.empty() && !memory_[result].empty(); }
  // Declares "Spilled<f32, L0, 512> t0 = {…};", which is the value's name during the loop.
  void declare(size_t result);
  // Emitted after the loop: loads the tiles back into registers.
  void end();

 private:
  Emitter& emitter_;
  const Op& loop_;
  std::vector<std::string> memory_;  // per result; empty: it stays in registers
};

}  // namespace tile::cuda
