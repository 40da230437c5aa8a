// Loop-carried tiles in shared memory: those for which the threads' registers have no room next to the
// others. Each thread keeps its own elements there, so that no barrier is needed.
#pragma once
#include <string>
#include <vector>

#include "ir/op.h"

namespace tile::cuda {

class Emitter;

class SpilledTiles {
 public:
  // Spills the values that a `for` carries and reads once an iteration, the last first, until all that
  // the kernel keeps leaves more than a quarter of the registers to addresses and to what is computed.
  SpilledTiles(Emitter& emitter, const Op& loop);
  bool has(size_t result) const { return !memory_.empty() && !memory_[result].empty(); }
  // "Spilled<f32, L0, 512> t0 = {…};", and its name while the loop runs.
  void declare(size_t result);
  // Behind the loop: tiles again.
  void end();

 private:
  Emitter& emitter_;
  const Op& loop_;
  std::vector<std::string> memory_;  // of each result; empty: it stays in registers
};

}  // namespace tile::cuda
