// gather, scatter and atomic_add: one element at a time.
#include <cstring>

#include "cpu/atomic_addition.h"
#include "cpu/operand.h"
#include "cpu/tables.h"

namespace tile::cpu {
namespace {

struct Elements {
  int array;
  std::vector<WholeOperand> index;
  WholeOperand mask;
  bool masked = false;

  void connect(Lower& lower, const Op& op, size_t first_index) {
    array = lower.array(op.operands[0]);
    size_t rank = static_cast<size_t>(op.type(0).array_rank);
    for (size_t i = 0; i < rank; ++i) index.push_back(WholeOperand::of(lower, op.operands[first_index + i]));
    masked = op.operands.size() > first_index + rank;
    if (masked) mask = WholeOperand::of(lower, op.operands.back());
  }

  // visit(element number, address or null where there is none)
  template <class Visit>
  void each(Frame& frame, int64_t count, const Visit& visit) const {
    const ArrayRef& to = frame.arrays[static_cast<size_t>(array)];
    const char* lanes[max_rank];
    for (size_t k = 0; k < index.size(); ++k) lanes[k] = index[k].lanes(frame);
    const char* taken = masked ? mask.lanes(frame) : nullptr;
    for (int64_t i = 0; i < count; ++i) {
      char* address = to.data;
      bool inside = to.there && (!taken || taken[i] != 0);
      for (size_t k = 0; k < index.size() && inside; ++k) {
        int64_t at = read(lanes[k], lane_of(index[k].dtype), i);
        inside = at >= to.first[k] && at < to.size[k];
        address += at * to.stride[k];
      }
      visit(i, inside ? address : nullptr);
    }
  }

  static int64_t read(const char* lanes, Lane lane, int64_t i) {
    Scalar scalar;
    const int bytes = lane_bytes(lane);
    std::memcpy(scalar.bytes, lanes + i * bytes, static_cast<size_t>(bytes));
    const bool is_unsigned = lane == Lane::u8 || lane == Lane::u16 || lane == Lane::u32;
    const int unused = 64 - 8 * bytes;
    return is_unsigned || unused == 0 ? scalar.i : scalar.i << unused >> unused;
  }
};

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

struct AtomicAddUnit final : Unit {
  Elements elements;
  WholeOperand value;
  AtomicAddition add;
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const int64_t element = lane_bytes(lane_of(value.dtype));
    const char* from = value.lanes(frame);
    elements.each(frame, value.count(), [&](int64_t i, char* address) {
      if (address) add(address, from + i * element);
    });
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<Unit> lower_atomic_add(Lower& lower, const Op& op) {
  auto unit = std::make_unique<AtomicAddUnit>();
  unit->elements.connect(lower, op, 2);
  unit->value = WholeOperand::of(lower, op.operands[1]);
  unit->add = AtomicAddition(unit->value.dtype);
  return unit;
}

const AddLowering gather_{{"gather", lower_gather}};
const AddLowering scatter_{{"scatter", lower_scatter}};
const AddLowering atomic_add_{{"atomic_add", lower_atomic_add}};

}  // namespace
}  // namespace tile::cpu
