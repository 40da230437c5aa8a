// Runs a fused loop: prepares the run, or repeats the last one with other addresses.
#include "cpu/fused_loop.h"

#include <utility>

#include "cpu/fused_loop_run.h"

namespace tile::cpu {

Signal FusedLoop::run(Frame& frame) const {
  const size_t mark = frame.scratch.mark();
  NodeStateSlot& slot = (*frame.kept)[static_cast<size_t>(kept)];
  auto& [latest, other] = slot.kept;
  const auto fits = [&](const std::unique_ptr<NodeState>& run) {
    return run && static_cast<FusedLoopRun&>(*run).fits(frame);
  };
  if (fits(latest)) {
    static_cast<FusedLoopRun&> (*latest)(frame);
  } else if (!slot.ran) {  // perhaps the only run of this launch
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

size_t FusedLoop::run_bytes() const {
  using Cursor = FusedLoopSpace::Cursor;
  constexpr size_t pieces = 20 * 64;  // each starts at a line of its own
  return (inputs.size() + outputs.size() + stores.size()) * (sizeof(Cursor) + sizeof(TileRef) + 64) +
         reductions.size() * sizeof(FusedLoopSpace::Accumulator) + (lanes.size() + steps.size()) * 128 +
         pieces;
}

size_t FusedLoop::scratch_bytes() const {
  constexpr size_t chunk = 8192 * 8 + 128;
  return inputs.size() * static_cast<size_t>(element_count(shape)) * 8 +
         (static_cast<size_t>(buffer_count) + 4) * chunk +
         (inputs.size() + reductions.size() + 1) * (chunk / 2) + run_bytes();
}

}  // namespace tile::cpu
