// gather_rows and scatter_rows: runs along the last axis, or single elements if the rows are along it. Rows
// that are gathered and then stored unchanged are copied from array to array.
#include <algorithm>
#include <cstring>

#include "cpu/interpreter/element_nodes.h"
#include "cpu/interpreter/lane_integer.h"

namespace tile::cpu {
namespace {

struct Rows {
  int array = -1;
  WholeOperand rows;
  std::vector<ScalarSlot> index;  // of the other axes
  Shape shape, steps;
  size_t along = 0;

  Rows(LoweringContext& lower, const Op& op)
      : array(lower.array(op.operands[0])),
        rows(WholeOperand::of(lower, op.operands[first_index(op)])),
        shape(op.results.empty() ? op.type(1).shape : op.results[0]->type.shape),
        steps(op.integers("steps")),
        along(static_cast<size_t>(op.integer("axis"))) {
    for (size_t i = first_index(op) + 1; i < op.operands.size(); ++i)
      index.push_back(lower.index(op.operands[i]));
  }

  // Visits runs along the last axis.
  template <class Visit>
  void each_run(Frame& frame, const Visit& visit) const {
    const ArrayRef& from = frame.arrays[static_cast<size_t>(array)];
    const size_t last = shape.size() - 1;
    if (along != last)
      return each_row(frame, [&](int64_t done, const int64_t*, char* address, int64_t low, int64_t high) {
        if (low < high) visit(done + low, address + low * from.stride[last], from.stride[last], high - low);
      });
    const char* lanes = rows.lanes(frame);
    each_row(frame, [&](int64_t done, const int64_t*, char* address, int64_t low, int64_t high) {
      for (int64_t k = low; k < high; ++k)
        if (const int64_t i = lane_integer(lanes, lane_of(rows.dtype), k); exists(from, last, i))
          visit(done + k, address + i * from.stride[last], from.stride[last], 1);
    });
  }

  // Calls visit(first element of the tile, its indices, address of the array's row at the tile's start, first
  // existing element, end of the existing elements). If the rows are along the last axis, the address is that
  // of the array's own row.
  template <class Visit>
  void each_row(Frame& frame, const Visit& visit) const {
    const ArrayRef& from = frame.arrays[static_cast<size_t>(array)];
    const char* lanes = rows.lanes(frame);
    const Lane lane = lane_of(rows.dtype);
    const size_t rank = shape.size(), last = rank - 1;
    int64_t start[max_rank] = {}, at[max_rank] = {};
    for (size_t i = 0, next = 0; i < rank; ++i)
      if (i != along) start[i] = integer(frame, index[next++]) * steps[i];
    const int64_t low = last == along ? 0 : std::max<int64_t>(from.first[last] - start[last], 0),
                  high = last == along ? shape[last] : std::min(from.size[last] - start[last], shape[last]);
    for (int64_t done = 0, all = element_count(shape); done < all; done += shape[last]) {
      char* address = from.data + start[last] * from.stride[last];
      bool there = low < high;
      for (size_t axis = 0; axis < last && there; ++axis) {
        const int64_t i = axis == along ? lane_integer(lanes, lane, at[axis]) : start[axis] + at[axis];
        there = exists(from, axis, i);
        if (there) address += i * from.stride[axis];
      }
      visit(done, at, address, low, there ? high : low);
      for (size_t i = last; i-- > 0;) {
        if (++at[i] < shape[i]) break;
        at[i] = 0;
      }
    }
  }
  static bool exists(const ArrayRef& from, size_t axis, int64_t i) {
    return i >= from.first[axis] && i < from.size[axis];
  }
};

// Returns the gather of rows that `store` writes, if its array does not change; else null.
const Op* gathered(const LoweringContext& lower, const Op& store) {
  const Op* op = store.operands[1]->definition;
  const bool moved = op && op->is("gather_rows") && !op->results[0]->type.is_scalar() &&
                     op->integer("axis") + 1 < static_cast<int64_t>(op->results[0]->type.shape.size()) &&
                     !lower.is_written(op->operands[0]);
  if (!moved) return nullptr;
  const DType dtype = op->results[0]->type.dtype;  // not one with different bits in memory
  return dtype == DType::boolean || dtype == DType::tf32 ? nullptr : op;
}
std::vector<const Value*> copy_needs(const LoweringContext& lower, const Op& store) {
  const Op& op = *gathered(lower, store);
  std::vector<const Value*> values(op.operands.begin(), op.operands.end());
  values.push_back(store.operands[0]);
  values.insert(values.end(), store.operands.begin() + 2, store.operands.end());
  return values;
}

struct CopyNode final : OpNode {
  Rows rows;
  TileAddress to;
  double pad;
  CopyNode(LoweringContext& lower, const Op& store, const Op& op)
      : rows(lower, op), to(lower.address(store, 2, store.type(1).shape)), pad(op.number("pad")) {
    lower.need_scratch(static_cast<size_t>(rows.shape.back()) * 8 + 64);
  }
  Signal run(Frame& frame) const override {
    const size_t mark = frame.scratch.mark(), last = rows.shape.size() - 1;
    const TileRef target = to.resolve(frame);
    const int64_t step = target[static_cast<int>(last)].stride,
                  from_step = frame.arrays[static_cast<size_t>(rows.array)].stride[last],
                  bytes = info(target.dtype).bytes;
    const MoveRow& move = move_row(target.dtype);
    char* const lanes = frame.scratch.take(static_cast<size_t>(rows.shape[last]) * 8);
    const auto limit = [&](size_t axis, int64_t i) {
      const TileRef::Axis& there = target[static_cast<int>(axis)];
      return std::clamp(i, there.first, std::max(there.first, there.valid));
    };
    rows.each_row(frame, [&](int64_t, const int64_t* at, const char* from, int64_t low, int64_t high) {
      char* row = target.data;
      for (size_t i = 0; i < last; ++i) {
        if (limit(i, at[i]) != at[i] || at[i] >= target[static_cast<int>(i)].valid) return;
        row += at[i] * target[static_cast<int>(i)].stride;
      }
      const int64_t begin = limit(last, 0), end = limit(last, rows.shape[last]);
      low = std::clamp(low, begin, end), high = std::clamp(high, low, end);
      const auto fill = [&](int64_t from, int64_t to) {
        if (from >= to) return;
        move.fill(lanes, pad, to - from);
        move.store(row + from * step, 0, step, lanes, 0, 1, to - from);
      };
      fill(begin, low);
      fill(high, end);
      const int64_t size = (high - low) * bytes;
      if (step != bytes || from_step != bytes) {
        move.load(from + low * from_step, 0, from_step, lanes, 0, 1, high - low);
        move.store(row + low * step, 0, step, lanes, 0, 1, high - low);
      } else if (target.streams && size >= 256 && size % 4 == 0) {
        move_row(DType::i32).stream(row + low * step, from + low * step, size / 4);
      } else if (size > 0) {
        std::memcpy(row + low * step, from + low * step, static_cast<size_t>(size));
      }
    });
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_copy(LoweringContext& lower, const Op& store) {
  return std::make_unique<CopyNode>(lower, store, *gathered(lower, store));
}

const AddLoweringRule gather_rows_{{"gather_rows", lower_as<ReadNode<Rows>>}};
const AddLoweringRule scatter_rows_{{"scatter_rows", lower_as<WriteNode<Rows>>}};
const AddLoweringRule copy_{
    {"store", lower_copy, false,
     [](const LoweringContext& lower, const Op& op) { return gathered(lower, op) != nullptr; }, copy_needs}};

}  // namespace
}  // namespace tile::cpu
