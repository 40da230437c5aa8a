// Shape changes that move elements: reshape across axes, cat; and bitcast.
#include <cstring>

#include "cpu/operand.h"
#include "cpu/tables.h"

namespace tile::cpu {
namespace {

struct ReshapeUnit final : Unit {
  WholeOperand from;
  WholeResult to;
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    std::memcpy(to.lanes(frame), from.lanes(frame),
                static_cast<size_t>(to.count() * lane_bytes(lane_of(to.dtype))));
    to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<Unit> lower_reshape(Lower& lower, const Op& op) {
  auto unit = std::make_unique<ReshapeUnit>();
  unit->from = WholeOperand::of(lower, op.operands[0]);
  unit->to = WholeResult::of(lower, op.results[0]);
  return unit;
}

struct CatUnit final : Unit {
  WholeOperand x, y;
  WholeResult to;
  int64_t lines, x_line, y_line;  // bytes of one run along the joined axis and those inside it
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const char *a = x.lanes(frame), *b = y.lanes(frame);
    char* out = to.lanes(frame);
    for (int64_t i = 0; i < lines; ++i) {
      std::memcpy(out, a + i * x_line, static_cast<size_t>(x_line));
      std::memcpy(out + x_line, b + i * y_line, static_cast<size_t>(y_line));
      out += x_line + y_line;
    }
    to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<Unit> lower_cat(Lower& lower, const Op& op) {
  auto unit = std::make_unique<CatUnit>();
  unit->x = WholeOperand::of(lower, op.operands[0]);
  unit->y = WholeOperand::of(lower, op.operands[1]);
  unit->to = WholeResult::of(lower, op.results[0]);
  unit->lines = 1;
  for (int64_t i = 0; i < op.integer("axis"); ++i) unit->lines *= unit->x.shape[static_cast<size_t>(i)];
  const int64_t bytes = lane_bytes(lane_of(unit->to.dtype));
  unit->x_line = unit->x.count() / unit->lines * bytes;
  unit->y_line = unit->y.count() / unit->lines * bytes;
  return unit;
}

struct BitcastUnit final : Unit {
  WholeOperand from;
  WholeResult to;
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const int64_t count = to.count(), bytes = info(to.dtype).bytes;
    const int64_t source = lane_bytes(lane_of(from.dtype)), target = lane_bytes(lane_of(to.dtype));
    char* memory = frame.scratch.take(static_cast<size_t>(count * bytes));  // as memory has the elements
    move_row(from.dtype).store(memory, count * bytes, bytes, from.lanes(frame), count * source, 1, count);
    move_row(to.dtype).load(memory, count * bytes, bytes, to.lanes(frame), count * target, 1, count);
    if (to.scalar < 0) to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<Unit> lower_bitcast(Lower& lower, const Op& op) {
  auto unit = std::make_unique<BitcastUnit>();
  unit->from = WholeOperand::of(lower, op.operands[0]);
  unit->to = WholeResult::of(lower, op.results[0]);
  return unit;
}

// A permutation of a scalar-sized tile is a view; only reshapes that split or join axes come here.
bool moves(const Lower&, const Op& op) {
  return op.results[0]->type.is_scalar() || (!op.type(0).is_scalar() && !is_tile_view(op));
}
const AddLowering reshape_{{"reshape", lower_reshape, false, moves}};
const AddLowering cat_{{"cat", lower_cat}};
const AddLowering bitcast_{{"bitcast", lower_bitcast}};

}  // namespace
}  // namespace tile::cpu
