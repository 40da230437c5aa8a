// Running a sweep: anew, or as the last time at other addresses.
#include "cpu/sweep.h"

#include "cpu/sweep_run.h"

namespace tile::cpu {

Signal Sweep::run(Frame& frame) const {
  const size_t mark = frame.scratch.mark();
  KeptSlot& slot = (*frame.kept)[static_cast<size_t>(kept)];
  if (slot.kept && static_cast<SweepRun&>(*slot.kept).fits(frame)) {
    static_cast<SweepRun&>(*slot.kept)(frame);
  } else if (!slot.ran) {  // perhaps the only run of this launch
    slot.ran = true;
    SweepRun once(*this, &frame.scratch);
    if (once.prepare(frame)) once(frame);
  } else {
    if (!slot.kept) slot.kept = std::make_unique<SweepRun>(*this);
    auto& run = static_cast<SweepRun&>(*slot.kept);
    if (run.prepare(frame)) run(frame);
  }
  frame.scratch.release(mark);
  return Signal::next;
}

size_t Sweep::run_bytes() const {
  using Cursor = SweepSpace::Cursor;
  constexpr size_t pieces = 20 * 64;  // each starts at a line of its own
  return (inputs.size() + outputs.size() + stores.size()) * (sizeof(Cursor) + sizeof(TileRef) + 64) +
         reductions.size() * sizeof(SweepSpace::Accumulator) + (lanes.size() + steps.size()) * 128 + pieces;
}

size_t Sweep::scratch_bytes() const {
  constexpr size_t chunk = 8192 * 8 + 128;
  return inputs.size() * static_cast<size_t>(element_count(shape)) * 8 +
         (static_cast<size_t>(buffer_count) + 4) * chunk +
         (inputs.size() + reductions.size() + 1) * (chunk / 2) + run_bytes();
}

}  // namespace tile::cpu
