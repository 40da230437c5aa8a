// argmax and argmin.
#include "cpu/interpreter/element_tables.h"
#include "cpu/interpreter/operand.h"
#include "cpu/prims/axis_split.h"

namespace tile::cpu {
namespace {

struct ArgNode final : OpNode {
  WholeOperand from;
  WholeResult to;
  AxisSplit split;
  decltype(ArgRow::largest) first;
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const int64_t slice = split.size * split.inner * lane_bytes(lane_of(from.dtype));
    const char* lanes = from.lanes(frame);
    auto* out = reinterpret_cast<int32_t*>(to.lanes(frame));
    for (int64_t o = 0; o < split.outer; ++o)
      first(lanes + o * slice, split.size, split.inner, out + o * split.inner);
    if (to.scalar < 0) to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_arg(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<ArgNode>();
  node->from = WholeOperand::of(lower, op.operands[0]);
  node->to = WholeResult::of(lower, op.results[0]);
  node->split = AxisSplit(node->from.shape, op.integer("axis"));
  const ArgRow& row = arg_rows().data[static_cast<int>(lane_of(node->from.dtype))];
  node->first = op.is("argmax") ? row.largest : row.smallest;
  return node;
}

const AddLoweringRule argmax_{{"argmax", lower_arg}};
const AddLoweringRule argmin_{{"argmin", lower_arg}};

}  // namespace
}  // namespace tile::cpu
