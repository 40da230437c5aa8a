// add_tile: adds a tile to memory, each element atomically.
#include <algorithm>

#include "cpu/interpreter/atomic_change.h"
#include "cpu/interpreter/elements.h"
#include "cpu/interpreter/operand.h"

namespace tile::cpu {
namespace {

struct AddTileNode final : OpNode {
  TileAddress address;
  WholeOperand value;
  ChangeFunction add;

  Signal run(Frame& frame) const override {
    constexpr int64_t most = Elements::most;
    const size_t mark = frame.scratch.mark();
    const ArrayRef& to = frame.arrays[static_cast<size_t>(address.array)];
    const Shape& shape = address.shape;
    const char* from = value.lanes(frame);
    if (shape.empty()) {
      const int64_t here = 0;
      if (to.there) add(to.data, &here, from, nullptr, 1);
      frame.scratch.release(mark);
      return Signal::next;
    }
    const size_t last = shape.size() - 1;
    const int64_t element = lane_bytes(lane_of(value.dtype));
    int64_t start[max_rank], at[max_rank] = {}, offsets[most];
    for (size_t axis = 0; axis <= last; ++axis)
      start[axis] = integer(frame, address.index[axis]) * address.steps[axis];
    const int64_t low = std::max<int64_t>(to.first[last] - start[last], 0),
                  high = std::min(to.size[last] - start[last], shape[last]);
    for (int64_t line = 0, count = value.count(); line < count; line += shape[last]) {
      int64_t offset = start[last] * to.stride[last];
      bool inside = true;
      for (size_t axis = 0; axis < last; ++axis) {
        const int64_t i = start[axis] + at[axis];
        inside = inside && i >= to.first[axis] && i < to.size[axis];
        offset += i * to.stride[axis];
      }
      for (int64_t done = low; inside && done < high; done += most) {
        const int64_t n = std::min(high - done, most);
        for (int64_t i = 0; i < n; ++i) offsets[i] = offset + (done + i) * to.stride[last];
        add(to.data, offsets, from + (line + done) * element, nullptr, n);
      }
      for (size_t axis = last; axis-- > 0;) {
        if (++at[axis] < shape[axis]) break;
        at[axis] = 0;
      }
    }
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_add_tile(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<AddTileNode>();
  node->address = lower.address(op, 2, op.type(1).shape);
  node->value = WholeOperand::of(lower, op.operands[1]);
  node->add = atomic_change(node->value.dtype, "add", MemoryScope::device);
  return node;
}

const AddLoweringRule add_tile_{{"add_tile", lower_add_tile}};

}  // namespace
}  // namespace tile::cpu
