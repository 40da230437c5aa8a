// gather and scatter.
#include "cpu/interpreter/elements.h"

#include <bit>

namespace tile::cpu {
namespace {

// The index in ElementsTable of an element or a lane of 1, 2, 4 or 8 bytes. The mask shows a compiler that it
// fits.
size_t by_bytes(int bytes) { return static_cast<size_t>(std::countr_zero(static_cast<unsigned>(bytes)) & 3); }

struct GatherNode final : OpNode {
  Elements elements;
  WholeResult to;
  double pad;
  GatherNode(LoweringContext& lower, const Op& op)
      : elements(lower, op, 1), to(WholeResult::of(lower, op.results[0])), pad(op.number("pad")) {}
  Signal run(Frame& frame) const override {
    const size_t mark = frame.scratch.mark();
    const MoveRow& move = move_row(to.dtype);
    const ElementsTable& table = elements_table();
    const int bytes = info(to.dtype).bytes, lane = lane_bytes(lane_of(to.dtype));
    const bool in_place = stored_as_lane(to.dtype);
    char* out = to.lanes(frame);
    alignas(64) char buffer[Elements::most * 8];
    Scalar padding;
    move.fill(padding.bytes, pad, 1);
    elements.each(frame, [&](int64_t first, const char* data, const int64_t* offsets, int64_t n, bool all) {
      char* const lanes = out + first * lane;
      char* const found = in_place ? lanes : buffer;
      table.read[by_bytes(bytes)](data, offsets, all, found, n);
      if (!in_place) move.load(found, 0, bytes, lanes, n * lane, 1, n);
      if (!all) table.pad[by_bytes(lane)](offsets, padding.bytes, lanes, n);
    });
    if (to.scalar < 0) to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};

struct ScatterNode final : OpNode {
  Elements elements;
  WholeOperand value;
  ScatterNode(LoweringContext& lower, const Op& op)
      : elements(lower, op, 2), value(WholeOperand::of(lower, op.operands[1])) {}
  Signal run(Frame& frame) const override {
    const size_t mark = frame.scratch.mark();
    const MoveRow& move = move_row(value.dtype);
    const ElementsTable& table = elements_table();
    const int bytes = info(value.dtype).bytes, lane = lane_bytes(lane_of(value.dtype));
    const bool in_place = stored_as_lane(value.dtype);
    const char* from = value.lanes(frame);
    alignas(64) char buffer[Elements::most * 8];
    elements.each(frame, [&](int64_t first, char* data, const int64_t* offsets, int64_t n, bool all) {
      const char* const lanes = from + first * lane;
      if (!in_place) move.store(buffer, 0, bytes, lanes, n * lane, 1, n);
      table.write[by_bytes(bytes)](data, offsets, all, in_place ? lanes : buffer, n);
    });
    frame.scratch.release(mark);
    return Signal::next;
  }
};

const AddLoweringRule gather_{{"gather", lower_as<GatherNode>}};
const AddLoweringRule scatter_{{"scatter", lower_as<ScatterNode>}};

}  // namespace
}  // namespace tile::cpu
