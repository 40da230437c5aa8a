// gather_rows and scatter_rows: runs along the last axis, or elements where the rows are along it.
#include <algorithm>

#include "cpu/lane_integer.h"
#include "cpu/places.h"

namespace tile::cpu {
namespace {

struct Rows {
  int array = -1;
  WholeOperand rows;
  std::vector<ScalarSlot> index;  // of the other axes
  Shape shape, steps;
  size_t along = 0;

  Rows(Lower& lower, const Op& op)
      : array(lower.array(op.operands[0])),
        rows(WholeOperand::of(lower, op.operands[first_place(op)])),
        shape(op.results.empty() ? op.type(1).shape : op.results[0]->type.shape),
        steps(op.integers("steps")),
        along(static_cast<size_t>(op.integer("axis"))) {
    for (size_t i = first_place(op) + 1; i < op.operands.size(); ++i)
      index.push_back(lower.index(op.operands[i]));
  }

  // Runs along the last axis.
  template <class Visit>
  void each_run(Frame& frame, const Visit& visit) const {
    const ArrayRef& from = frame.arrays[static_cast<size_t>(array)];
    const char* lanes = rows.lanes(frame);
    const Lane lane = lane_of(rows.dtype);
    const size_t rank = shape.size(), last = rank - 1;
    int64_t start[max_rank] = {}, at[max_rank] = {};
    for (size_t i = 0, next = 0; i < rank; ++i)
      if (i != along) start[i] = integer(frame, index[next++]) * steps[i];
    const auto place = [&](size_t axis, int64_t i) {
      return axis == along ? lane_integer(lanes, lane, i) : start[axis] + i;
    };
    const auto inside = [&](size_t axis, int64_t i) { return i >= from.first[axis] && i < from.size[axis]; };
    for (int64_t done = 0, all = element_count(shape); done < all; done += shape[last]) {
      char* address = from.data;
      bool there = true;
      for (size_t axis = 0; axis < last && there; ++axis) {
        const int64_t i = place(axis, at[axis]);
        there = inside(axis, i);
        if (there) address += i * from.stride[axis];
      }
      if (there && last == along) {
        for (int64_t k = 0; k < shape[last]; ++k)
          if (const int64_t i = place(last, k); inside(last, i))
            visit(done + k, address + i * from.stride[last], from.stride[last], 1);
      } else if (there) {
        const int64_t low = std::max(start[last], from.first[last]),
                      high = std::min(start[last] + shape[last], from.size[last]);
        if (low < high)
          visit(done + low - start[last], address + low * from.stride[last], from.stride[last], high - low);
      }
      for (size_t i = last; i-- > 0;) {
        if (++at[i] < shape[i]) break;
        at[i] = 0;
      }
    }
  }
};

const AddLowering gather_rows_{{"gather_rows", lower_places<ReadUnit<Rows>>}};
const AddLowering scatter_rows_{{"scatter_rows", lower_places<WriteUnit<Rows>>}};

}  // namespace
}  // namespace tile::cpu
