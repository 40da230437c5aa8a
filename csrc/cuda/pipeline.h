// Text of tiles that are staged in shared memory, and of loops that load them some turns ahead.
#pragma once
#include "cuda/emitter.h"

namespace tile::cuda {

// "{i64(v3) * 32, i64(v4) * 64}": where a load or store begins, an axis each, from its operand `first` on.
std::string start_text(Emitter& emitter, const Op& op, size_t first);

// The load of a staged tile: in a loop that runs ahead only its name, elsewhere the copy and the wait for it.
void emit_staged_load(Emitter& emitter, const Staged& staged);

// A counted loop's staged tiles; does nothing where it has none.
class StagedLoop {
 public:
  StagedLoop(Emitter& emitter,
             const Op& op);  // before the loop: a function that loads a turn, the first turns
  void begin_turn();
  void end_turn();
  void end();

 private:
  Emitter& emitter_;
  const Op& op_;
  std::vector<const Staged*> staged_;
  int64_t mark_ = 0;
  int stages_ = 0;
  std::string load_, stage_;
};

}  // namespace tile::cuda
