// A parallel copy of values between regions. Tiles are not copied if their slots can be exchanged.
#pragma once
#include "cpu/interpreter/lowering_context.h"

namespace tile::cpu {

class ParallelCopy {
 public:
  // `from` has values of one block, `to` the values that receive them (arguments or results), pairwise.
  ParallelCopy(LoweringContext& lower, const Block* source, const std::vector<Value*>& from,
               const std::vector<const Value*>& to);
  void run(Frame& frame) const;

 private:
  struct ScalarMove {
    int from, to;
  };
  struct TileMove {
    enum class Kind { rename, exchange, copy } kind;
    int from, to;            // tiles
    int from_slot, to_slot;  // exchanged; for a copy, from_slot is a spare
    int rank;
  };
  std::vector<ScalarMove> scalars_;
  std::vector<TileMove> tiles_;
};

}  // namespace tile::cpu
