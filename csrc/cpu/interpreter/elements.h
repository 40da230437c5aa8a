// Elements of an array at index tiles, one at a time.
#pragma once
#include "cpu/interpreter/lane_integer.h"
#include "cpu/interpreter/operand.h"
#include "ir/atomic.h"

namespace tile::cpu {

struct Elements {
  int array = -1;
  std::vector<WholeOperand> index;
  WholeOperand mask;
  bool masked = false, flat = false;
  int64_t count = 0;

  Elements() = default;
  Elements(LoweringContext& lower, const Op& op, size_t first_index)
      : array(lower.array(op.operands[0])),
        flat(is_flat(op)),
        count(element_count(op.operands.back()->type.shape)) {
    const size_t tiles = index_count(op);
    for (size_t i = 0; i < tiles; ++i) index.push_back(WholeOperand::of(lower, op.operands[first_index + i]));
    masked = op.operands.size() > first_index + tiles;
    if (masked) mask = WholeOperand::of(lower, op.operands.back());
  }

  // Calls visit(element number, address), with a null address for elements that do not exist.
  template <class Visit>
  void each(Frame& frame, const Visit& visit) const {
    const ArrayRef& to = frame.arrays[static_cast<size_t>(array)];
    const char* lanes[max_rank];
    for (size_t k = 0; k < index.size(); ++k) lanes[k] = index[k].lanes(frame);
    const char* taken = masked ? mask.lanes(frame) : nullptr;
    for (int64_t i = 0; i < count; ++i) {
      char* address = to.data;
      bool inside = (flat || to.there) && (!taken || taken[i] != 0);
      for (size_t k = 0; k < index.size() && inside; ++k) {
        int64_t at = lane_integer(lanes[k], lane_of(index[k].dtype), i);
        inside = flat || (at >= to.first[k] && at < to.size[k]);
        address += at * (flat ? info(to.dtype).bytes : to.stride[k]);
      }
      visit(i, inside ? address : nullptr);
    }
  }
};

}  // namespace tile::cpu
