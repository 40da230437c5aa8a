// gather_rows and scatter_rows: runs along the last axis, or elements where the rows are along it.
#include <algorithm>

#include "cpu/lane_integer.h"
#include "cpu/operand.h"
#include "cpu/tables.h"

namespace tile::cpu {
namespace {

struct Rows {
  int array = -1;
  WholeOperand rows;
  std::vector<ScalarSlot> index;  // of the other axes
  Shape shape, steps;
  size_t along = 0;

  Rows() = default;
  Rows(Lower& lower, const Op& op, size_t first, Shape of)
      : array(lower.array(op.operands[0])),
        rows(WholeOperand::of(lower, op.operands[first])),
        shape(std::move(of)),
        steps(op.integers("steps")),
        along(static_cast<size_t>(op.integer("axis"))) {
    for (size_t i = first + 1; i < op.operands.size(); ++i) index.push_back(lower.index(op.operands[i]));
  }

  // visit(element of the tile, address, stride in bytes, count), of runs along the last axis that are inside
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

struct GatherRowsUnit final : Unit {
  Rows rows;
  WholeResult to;
  double pad;
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const MoveRow& move = move_row(to.dtype);
    const int64_t element = lane_bytes(lane_of(to.dtype));
    char* out = to.lanes(frame);
    move.fill(out, pad, to.count());
    rows.each_run(frame, [&](int64_t i, const char* address, int64_t stride, int64_t count) {
      move.load(address, 0, stride, out + i * element, count * element, 1, count);
    });
    to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<Unit> lower_gather_rows(Lower& lower, const Op& op) {
  auto unit = std::make_unique<GatherRowsUnit>();
  unit->rows = Rows(lower, op, 1, op.integers("shape"));
  unit->to = WholeResult::of(lower, op.results[0]);
  unit->pad = op.number("pad");
  return unit;
}

struct ScatterRowsUnit final : Unit {
  Rows rows;
  WholeOperand value;
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const MoveRow& move = move_row(value.dtype);
    const int64_t element = lane_bytes(lane_of(value.dtype));
    const char* from = value.lanes(frame);
    rows.each_run(frame, [&](int64_t i, char* address, int64_t stride, int64_t count) {
      move.store(address, 0, stride, from + i * element, count * element, 1, count);
    });
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<Unit> lower_scatter_rows(Lower& lower, const Op& op) {
  auto unit = std::make_unique<ScatterRowsUnit>();
  unit->rows = Rows(lower, op, 2, op.type(1).shape);
  unit->value = WholeOperand::of(lower, op.operands[1]);
  return unit;
}

const AddLowering gather_rows_{{"gather_rows", lower_gather_rows}};
const AddLowering scatter_rows_{{"scatter_rows", lower_scatter_rows}};

}  // namespace
}  // namespace tile::cpu
