// Shape ops that move elements: reshapes across axes, cat; and bitcast.
#include <cstring>

#include "cpu/interpreter/operand.h"
#include "cpu/interpreter/tables.h"

namespace tile::cpu {
namespace {

struct ReshapeNode final : OpNode {
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
std::unique_ptr<OpNode> lower_reshape(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<ReshapeNode>();
  node->from = WholeOperand::of(lower, op.operands[0]);
  node->to = WholeResult::of(lower, op.results[0]);
  return node;
}

struct CatNode final : OpNode {
  WholeOperand x, y;
  WholeResult to;
  int64_t lines, x_line, y_line;  // bytes of one run along the joined axis and the axes inside it
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
std::unique_ptr<OpNode> lower_cat(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<CatNode>();
  node->x = WholeOperand::of(lower, op.operands[0]);
  node->y = WholeOperand::of(lower, op.operands[1]);
  node->to = WholeResult::of(lower, op.results[0]);
  node->lines = 1;
  for (int64_t i = 0; i < op.integer("axis"); ++i) node->lines *= node->x.shape[static_cast<size_t>(i)];
  const int64_t bytes = lane_bytes(lane_of(node->to.dtype));
  node->x_line = node->x.count() / node->lines * bytes;
  node->y_line = node->y.count() / node->lines * bytes;
  return node;
}

struct BitcastNode final : OpNode {
  WholeOperand from;
  WholeResult to;
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const int64_t count = to.count(), bytes = info(to.dtype).bytes;
    const int64_t source = lane_bytes(lane_of(from.dtype)), target = lane_bytes(lane_of(to.dtype));
    char* memory = frame.scratch.take(static_cast<size_t>(count * bytes));  // in memory format
    move_row(from.dtype).store(memory, count * bytes, bytes, from.lanes(frame), count * source, 1, count);
    move_row(to.dtype).load(memory, count * bytes, bytes, to.lanes(frame), count * target, 1, count);
    if (to.scalar < 0) to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_bitcast(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<BitcastNode>();
  node->from = WholeOperand::of(lower, op.operands[0]);
  node->to = WholeResult::of(lower, op.results[0]);
  return node;
}

// Returns true if elements move: a permutation of a scalar-sized tile is a view, and so are reshapes that do
// not split or join axes.
bool moves(const LoweringContext&, const Op& op) {
  return op.results[0]->type.is_scalar() || (!op.type(0).is_scalar() && !is_tile_view(op));
}
const AddLoweringRule reshape_{{"reshape", lower_reshape, false, moves}};
const AddLoweringRule cat_{{"cat", lower_cat}};
const AddLoweringRule bitcast_{{"bitcast", lower_bitcast}};

}  // namespace
}  // namespace tile::cpu
