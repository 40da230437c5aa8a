// Elements of an array at index tiles, as offsets from its first element.
#pragma once
#include <algorithm>

#include "cpu/interpreter/element_tables.h"
#include "cpu/interpreter/operand.h"
#include "ir/atomic.h"

namespace tile::cpu {

struct Elements {
  static constexpr int64_t most = 256;  // offsets at once, which stay in the first-level cache

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

  // Calls visit(number of the first element, address of the array, offsets, how many, whether all exist) for
  // consecutive elements.
  template <class Visit>
  void each(Frame& frame, const Visit& visit) const {
    const ArrayRef& to = frame.arrays[static_cast<size_t>(array)];
    const ElementsTable& table = elements_table();
    const bool there = flat || to.there;
    const char* lanes[max_rank];
    IndexedAxis axes[max_rank];
    for (size_t k = 0; k < index.size(); ++k) {
      lanes[k] = index[k].lanes(frame);
      axes[k] = {to.first[k], to.size[k], to.stride[k]};
      if (flat) axes[k] = {INT64_MIN, INT64_MAX, info(to.dtype).bytes};
    }
    const char* taken = masked ? mask.lanes(frame) : nullptr;
    alignas(64) int64_t offsets[most];
    for (int64_t done = 0; done < count; done += most) {
      const int64_t n = std::min(count - done, most);
      const bool from_zero = taken || index.empty() || !there;
      bool all = there;
      if (from_zero) {
        uint64_t absent = 0;
        for (int64_t i = 0; i < n; ++i) {  // without branches; the top bit alone is no_element
          const uint64_t drops = static_cast<uint64_t>(!there) | (taken ? taken[done + i] == 0 : 0);
          offsets[i] = static_cast<int64_t>(drops << 63);
          absent |= drops;
        }
        all = absent == 0;
      }
      for (size_t k = 0; k < index.size(); ++k) {
        const Lane lane = lane_of(index[k].dtype);
        all = table.locate[static_cast<int>(lane)](lanes[k] + done * lane_bytes(lane), axes[k],
                                                   k == 0 && !from_zero, offsets, n);
      }
      visit(done, to.data, offsets, n, all);
    }
  }
};

}  // namespace tile::cpu
