// gather and scatter.
#include "cpu/elements.h"

namespace tile::cpu {
namespace {

struct GatherUnit final : Unit {
  Elements elements;
  WholeResult to;
  double pad;
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const MoveRow& move = move_row(to.dtype);
    const int64_t element = lane_bytes(lane_of(to.dtype));
    char* out = to.lanes(frame);
    move.fill(out, pad, to.count());
    elements.each(frame, to.count(), [&](int64_t i, const char* address) {
      if (address) move.load(address, 0, info(to.dtype).bytes, out + i * element, element, 1, 1);
    });
    if (to.scalar < 0) to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<Unit> lower_gather(Lower& lower, const Op& op) {
  auto unit = std::make_unique<GatherUnit>();
  unit->elements.connect(lower, op, 1);
  unit->to = WholeResult::of(lower, op.results[0]);
  unit->pad = op.number("pad");
  return unit;
}

struct ScatterUnit final : Unit {
  Elements elements;
  WholeOperand value;
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const MoveRow& move = move_row(value.dtype);
    const int64_t element = lane_bytes(lane_of(value.dtype));
    const char* from = value.lanes(frame);
    elements.each(frame, value.count(), [&](int64_t i, char* address) {
      if (address) move.store(address, 0, info(value.dtype).bytes, from + i * element, element, 1, 1);
    });
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<Unit> lower_scatter(Lower& lower, const Op& op) {
  auto unit = std::make_unique<ScatterUnit>();
  unit->elements.connect(lower, op, 2);
  unit->value = WholeOperand::of(lower, op.operands[1]);
  return unit;
}

const AddLowering gather_{{"gather", lower_gather}};
const AddLowering scatter_{{"scatter", lower_scatter}};

}  // namespace
}  // namespace tile::cpu
