// load_offset and store_offset: one element at a time.
#include "cpu/interpreter/element_nodes.h"
#include "cpu/interpreter/lane_integer.h"

namespace tile::cpu {
namespace {

struct Offsets {
  int array = -1;
  WholeOperand offset, mask;
  bool masked = false;

  Offsets(LoweringContext& lower, const Op& op) : array(lower.array(op.operands[0])) {
    const size_t first = first_index(op);
    offset = WholeOperand::of(lower, op.operands[first]);
    masked = op.operands.size() > first + 1;
    if (masked) mask = WholeOperand::of(lower, op.operands[first + 1]);
  }
  template <class Visit>
  void each_run(Frame& frame, const Visit& visit) const {
    const ArrayRef& to = frame.arrays[static_cast<size_t>(array)];
    const char* offsets = offset.lanes(frame);
    const char* taken = masked ? mask.lanes(frame) : nullptr;
    const Lane lane = lane_of(offset.dtype);
    const int64_t bytes = info(to.dtype).bytes;
    for (int64_t i = 0, count = offset.count(); i < count; ++i)
      if (!taken || taken[i] != 0) visit(i, to.data + lane_integer(offsets, lane, i) * bytes, bytes, 1);
  }
};

const AddLoweringRule load_offset_{{"load_offset", lower_as<ReadNode<Offsets>>}};
const AddLoweringRule store_offset_{{"store_offset", lower_as<WriteNode<Offsets>>}};

}  // namespace
}  // namespace tile::cpu
