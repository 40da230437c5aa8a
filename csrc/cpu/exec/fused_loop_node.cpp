// Runs a fused loop: prepares the run, or repeats the last one with new addresses.
#include "cpu/exec/fused_loop_node.h"

#include <utility>

#include "cpu/exec/fused_loop_run.h"
#include "cpu/interpreter/lowering_context.h"

namespace tile::cpu {

Signal FusedLoopNode::run(Frame& frame) const {
  const size_t mark = frame.scratch.mark();
  NodeStateSlot& slot = (*frame.node_states)[static_cast<size_t>(state_index)];
  auto& [latest, other] = slot.states;
  const auto fits = [&](const std::unique_ptr<NodeState>& run) {
    return run && static_cast<FusedLoopRun&>(*run).fits(frame);
  };
  if (fits(latest)) {
    static_cast<FusedLoopRun&> (*latest)(frame);
  } else if (!slot.ran) {  // this may be the only run of the launch
    slot.ran = true;
    FusedLoopRun once(*this, &frame.scratch);
    if (once.prepare(frame)) once(frame);
  } else {
    const bool known = fits(other);
    std::swap(latest, other);
    if (!latest) latest = std::make_unique<FusedLoopRun>(*this);
    auto& run = static_cast<FusedLoopRun&>(*latest);
    if (known || run.prepare(frame)) run(frame);
  }
  frame.scratch.release(mark);
  return Signal::next;
}

size_t FusedLoopNode::run_bytes() const {
  using Cursor = FusedLoopSpace::Cursor;
  constexpr size_t padding = 20 * 64;  // each array starts on its own cache line
  return (fused_loop.inputs.size() + fused_loop.outputs.size() + fused_loop.stores.size()) *
             (sizeof(Cursor) + sizeof(TileRef) + 64) +
         fused_loop.reductions.size() * sizeof(FusedLoopSpace::Accumulator) +
         (fused_loop.lanes.size() + fused_loop.steps.size()) * 128 + padding;
}

size_t FusedLoopNode::scratch_bytes() const {
  constexpr size_t chunk = 8192 * 8 + 128;
  return fused_loop.inputs.size() * static_cast<size_t>(element_count(fused_loop.shape)) * 8 +
         (static_cast<size_t>(fused_loop.buffer_count) + 4) * chunk +
         (fused_loop.inputs.size() + fused_loop.reductions.size() + 1) * (chunk / 2) + run_bytes();
}

std::unique_ptr<OpNode> make_fused_loop_node(LoweringContext& lower, FusedLoop fused_loop) {
  auto node = std::make_unique<FusedLoopNode>(std::move(fused_loop), lower.new_node_state());
  lower.need_scratch(node->scratch_bytes());
  return node;
}

}  // namespace tile::cpu
