// The node of a fused loop, and the machine code compiled for it.
#pragma once
#include <utility>

#include "cpu/fusion/fused_loop.h"
#include "cpu/jit/fused_loop_code.h"

namespace tile::cpu {

struct FusedLoopNode final : OpNode {
  FusedLoopNode(FusedLoop plan, int state) : fused_loop(std::move(plan)), state_index(state) {}

  const FusedLoop fused_loop;
  const int state_index;              // in Frame::node_states
  mutable jit::FusedLoopCodes codes;  // for the memory layouts seen so far

  Signal run(Frame& frame) const override;
  size_t run_bytes() const;      // a FusedLoopRun's own memory
  size_t scratch_bytes() const;  // the most that one run needs
};

}  // namespace tile::cpu
