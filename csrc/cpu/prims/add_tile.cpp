// add_tile: adds a tile to memory, one element at a time.
#include "cpu/interpreter/atomic_change.h"
#include "cpu/interpreter/operand.h"

namespace tile::cpu {
namespace {

struct AddTileNode final : OpNode {
  TileAddress address;
  WholeOperand value;
  AtomicChange add;

  Signal run(Frame& frame) const override {
    const size_t mark = frame.scratch.mark();
    const ArrayRef& to = frame.arrays[static_cast<size_t>(address.array)];
    const Shape& shape = address.shape;
    int64_t start[max_rank];
    for (size_t axis = 0; axis < shape.size(); ++axis)
      start[axis] = integer(frame, address.index[axis]) * address.steps[axis];
    const char* from = value.lanes(frame);
    const int64_t element = lane_bytes(lane_of(value.dtype));
    for (int64_t i = 0; i < value.count(); ++i) {
      char* data = to.data;
      bool inside = true;
      int64_t rest = i;
      for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) {
        const int64_t at = start[axis] + rest % shape[axis];
        inside = inside && at >= to.first[axis] && at < to.size[axis];
        data += at * to.stride[axis];
      }
      if (inside) add(data, from + i * element);
    }
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_add_tile(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<AddTileNode>();
  node->address = lower.address(op, 2, op.type(1).shape);
  node->value = WholeOperand::of(lower, op.operands[1]);
  node->add = AtomicChange(node->value.dtype, "add");
  return node;
}

const AddLoweringRule add_tile_{{"add_tile", lower_add_tile}};

}  // namespace
}  // namespace tile::cpu
