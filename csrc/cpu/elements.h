// Elements of an array at index tiles, one at a time.
#pragma once
#include "cpu/lane_integer.h"
#include "cpu/operand.h"

namespace tile::cpu {

struct Elements {
  int array = -1;
  std::vector<WholeOperand> index;
  WholeOperand mask;
  bool masked = false;
  int64_t count = 0;

  Elements() = default;
  Elements(Lower& lower, const Op& op, size_t first_index)
      : array(lower.array(op.operands[0])), count(element_count(op.operands.back()->type.shape)) {
    const auto rank = static_cast<size_t>(op.type(0).array_rank);
    for (size_t i = 0; i < rank; ++i) index.push_back(WholeOperand::of(lower, op.operands[first_index + i]));
    masked = op.operands.size() > first_index + rank;
    if (masked) mask = WholeOperand::of(lower, op.operands.back());
  }

  // visit(element number, address or null where there is none)
  template <class Visit>
  void each(Frame& frame, const Visit& visit) const {
    const ArrayRef& to = frame.arrays[static_cast<size_t>(array)];
    const char* lanes[max_rank];
    for (size_t k = 0; k < index.size(); ++k) lanes[k] = index[k].lanes(frame);
    const char* taken = masked ? mask.lanes(frame) : nullptr;
    for (int64_t i = 0; i < count; ++i) {
      char* address = to.data;
      bool inside = to.there && (!taken || taken[i] != 0);
      for (size_t k = 0; k < index.size() && inside; ++k) {
        int64_t at = lane_integer(lanes[k], lane_of(index[k].dtype), i);
        inside = at >= to.first[k] && at < to.size[k];
        address += at * to.stride[k];
      }
      visit(i, inside ? address : nullptr);
    }
  }
};

}  // namespace tile::cpu
