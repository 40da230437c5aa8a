// load_offset and store_offset: one element at a time.
#include <cstring>

#include "cpu/lane_integer.h"
#include "cpu/operand.h"
#include "cpu/tables.h"

namespace tile::cpu {
namespace {

struct Offsets {
  int array = -1;
  WholeOperand offset, mask;
  bool masked = false;

  Offsets() = default;
  Offsets(Lower& lower, const Op& op, size_t first) : array(lower.array(op.operands[0])) {
    offset = WholeOperand::of(lower, op.operands[first]);
    masked = op.operands.size() > first + 1;
    if (masked) mask = WholeOperand::of(lower, op.operands[first + 1]);
  }
  // visit(element number, address), of those that are not masked out
  template <class Visit>
  void each(Frame& frame, const Visit& visit) const {
    const ArrayRef& to = frame.arrays[static_cast<size_t>(array)];
    const char* places = offset.lanes(frame);
    const char* taken = masked ? mask.lanes(frame) : nullptr;
    const Lane lane = lane_of(offset.dtype);
    for (int64_t i = 0, count = offset.count(); i < count; ++i)
      if (!taken || taken[i] != 0) visit(i, to.data + lane_integer(places, lane, i) * info(to.dtype).bytes);
  }
};

struct LoadOffsetUnit final : Unit {
  Offsets offsets;
  WholeResult to;
  double pad;
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const MoveRow& move = move_row(to.dtype);
    const int64_t element = lane_bytes(lane_of(to.dtype));
    char* out = to.lanes(frame);
    move.fill(out, pad, to.count());
    offsets.each(frame, [&](int64_t i, const char* address) {
      move.load(address, 0, info(to.dtype).bytes, out + i * element, element, 1, 1);
    });
    if (to.scalar < 0) to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<Unit> lower_load_offset(Lower& lower, const Op& op) {
  auto unit = std::make_unique<LoadOffsetUnit>();
  unit->offsets = Offsets(lower, op, 1);
  unit->to = WholeResult::of(lower, op.results[0]);
  unit->pad = op.number("pad");
  return unit;
}

struct StoreOffsetUnit final : Unit {
  Offsets offsets;
  WholeOperand value;
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const MoveRow& move = move_row(value.dtype);
    const int64_t element = lane_bytes(lane_of(value.dtype));
    const char* from = value.lanes(frame);
    offsets.each(frame, [&](int64_t i, char* address) {
      move.store(address, 0, info(value.dtype).bytes, from + i * element, element, 1, 1);
    });
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<Unit> lower_store_offset(Lower& lower, const Op& op) {
  auto unit = std::make_unique<StoreOffsetUnit>();
  unit->offsets = Offsets(lower, op, 2);
  unit->value = WholeOperand::of(lower, op.operands[1]);
  return unit;
}

const AddLowering load_offset_{{"load_offset", lower_load_offset}};
const AddLowering store_offset_{{"store_offset", lower_store_offset}};

}  // namespace
}  // namespace tile::cpu
